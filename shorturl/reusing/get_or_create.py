from collections.abc import Callable

from shorturl.keys import draw
from shorturl.models import ShortUrl

KEY_LENGTH = 7


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Get the link to the target, or create it.

    What it does: hands both to Django's get_or_create(), which inserts by itself, with a random
    key; `create` is not called. It returns the short URL, and whether it is new.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 21
        BEGIN, or SAVEPOINT …
        INSERT INTO shorturl_shorturl …
        COMMIT, or RELEASE SAVEPOINT …

    What goes wrong: get_or_create() is safe by the unique constraint of what it looks for, as
    Django's documentation says, and here is none. Two processes look, find nothing, and both
    insert. From then on every call finds two links where it wants one, and raises
    ShortUrl.MultipleObjectsReturned.

    What it costs: one statement when the link is there, four when not.

    When to use it: for what a unique constraint stands for, such as a tag by its name.
    """
    return ShortUrl.objects.live().get_or_create(
        target_url=target_url, owner_id=owner_id, defaults={"key": draw(KEY_LENGTH)}
    )
