from collections.abc import Iterable
from time import time_ns
from typing import Any

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "the clock as the key"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Make the key from the milliseconds since 1970, in base 16.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …

    What goes wrong: many processes on many machines read the clock at the same time, and clocks are
    sometimes set back; the second INSERT raises IntegrityError. A finer clock makes collisions
    rarer, never impossible. Anyone who knows one key can guess the keys near it.

    What it costs: one statement, and keys of eleven characters.
    """
    key = f"{time_ns() // 1_000_000:x}"
    return ShortUrl.objects.create(key=key, target_url=target_url, **values)
