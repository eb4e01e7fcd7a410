"""Write a reuse that holds: one link for all who ask for the same target.

It returns the oldest of the owner's live links to the target, and False; or what `create()` makes
and returns, and True, where there is none. A link that was deleted is none. No constraint says that
there is one link to a target, and there may be none: a plain create makes as many as it is asked.

As it stands it looks, and then makes one. Who else has looked?

Two races judge it: everybody asks for a target that has no link, and for one whose link is deleted.
"""

from collections.abc import Callable

from shorturl.models import ShortUrl


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    found = links.order_by("id").first()
    return (found, False) if found else (create(), True)
