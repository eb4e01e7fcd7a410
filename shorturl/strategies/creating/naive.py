from collections.abc import Iterable
from typing import Any

from shorturl.models import ShortUrl

VERDICT = "wrong"
STEP = "⛔ 1"
SHOWS = "ignores collisions"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert the first candidate key.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …

    What goes wrong: random keys collide, the more often the fuller the key space is. With a million
    links and five characters, one create in 916 raises IntegrityError. The unique constraint keeps
    the data correct, and the user gets an error page.

    What it costs: one statement.
    """
    key = next(iter(keys))
    return ShortUrl.objects.create(key=key, target_url=target_url, **values)
