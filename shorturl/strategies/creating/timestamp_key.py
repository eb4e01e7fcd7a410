from collections.abc import Iterable
from time import time_ns
from typing import Any

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "the clock as the key"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Make the key from the clock, as if it never showed the same time twice.

    The key is the milliseconds since 1970 in base 16. Raises IntegrityError when another process
    has read the same time.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …

    What goes wrong: many processes on many machines read the clock at the same time, and clocks are
    sometimes set back. A finer clock makes collisions rarer, never impossible: two processes can
    read it at the same nanosecond. Anyone who knows one key can guess the keys near it.

    What it costs: one statement, and keys of eleven characters.

    When to use it: never. A time that must be unique needs the same care as any other key.
    """
    key = f"{time_ns() // 1_000_000:x}"
    return ShortUrl.objects.create(key=key, target_url=target_url, **values)
