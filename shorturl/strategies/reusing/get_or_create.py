from collections.abc import Callable

from shorturl.links.keys import draw
from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "Django's idiom without the unique constraint that it needs"

KEY_LENGTH = 7


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Get the link to the target, or create it, with a random key; `create` is not called.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 21
        BEGIN, or SAVEPOINT …
        INSERT INTO shorturl_shorturl …
        COMMIT, or RELEASE SAVEPOINT …

    What goes wrong: get_or_create() is safe only if a unique constraint covers the fields that it
    looks for, and here none does. Two processes look, find nothing, and both insert. From then on
    every call finds two links, and raises ShortUrl.MultipleObjectsReturned.

    What it costs: one statement when the link exists, four when it does not.

    When to use it: for fields with a unique constraint, such as the name of a tag.
    """
    return ShortUrl.objects.live().get_or_create(
        target_url=target_url, owner_id=owner_id, defaults={"key": draw(KEY_LENGTH)}
    )
