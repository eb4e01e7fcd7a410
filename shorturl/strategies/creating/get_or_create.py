from collections.abc import Iterable
from typing import Any

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "Django's idiom without a look at `created`: another user's link, silently"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Get the short URL of the first candidate key, or create it.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE key = … LIMIT 21
        BEGIN, or SAVEPOINT …
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT, or RELEASE SAVEPOINT …

    What goes wrong: it never fails, even when another process inserts the key in between. A process
    that draws a taken key gets the existing link: its user is given another user's short URL, and
    the requested target is dropped, even without concurrency. The fix is to check `created`, which
    this code ignores, and to try the next key when it is False.

    What it costs: one statement when the row exists, four when it does not.

    When to use it: where an existing row is as good as a new one, such as a tag found by its name.
    """
    key = next(iter(keys))
    short_url, _created = ShortUrl.objects.get_or_create(
        key=key, defaults={"target_url": target_url, **values}
    )
    return short_url
