"""Write a correct `reuse`: `pytest lab/exercises/tests/reuse.py` tests it.

`reuse` returns the owner's oldest live link to the target, and False. Without such a link it
returns the link that `create()` makes, and True. What `create()` raises, `reuse` raises. No unique
constraint can help, because other code may create several links to one target.

Calls at once end as calls one after another do. It also works in a caller's transaction, or
refuses it as atomic(durable=True) does.

The function below looks for a link and then creates one. Which other process has looked, too?
"""

from collections.abc import Callable

from shorturl.models import ShortUrl

Reused = tuple[ShortUrl, bool]


def reuse(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) -> Reused:
    links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    oldest = links.order_by("id").first()
    return (oldest, False) if oldest else (create(), True)
