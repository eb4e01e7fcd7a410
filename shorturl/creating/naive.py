from collections.abc import Iterable
from typing import Any

from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Take the first candidate key and hope.

    What it does: inserts the short URL with the first key that was drawn. It returns the short
    URL, and raises IntegrityError when somebody has the key already.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …

    What goes wrong: random keys do collide, the sooner the fuller the key space (with a million
    links and five characters, one create in 916 fails). The unique constraint keeps the data
    sound; the user gets an error page.

    What it costs: one statement, while it lasts.

    When to use it: never.
    """
    key = next(iter(keys))
    return ShortUrl.objects.create(key=key, target_url=target_url, **values)
