from collections.abc import Iterable
from time import time_ns
from typing import Any

from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Make the key from the clock, which surely never shows the same time twice.

    What it does: writes the milliseconds since 1970 in base 16 and inserts that; the candidate
    keys are not used. It returns the short URL, and raises IntegrityError when another process
    read the same time.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …

    What goes wrong: one clock is read by many processes, on many machines, and is set back now
    and then. A finer clock makes it rarer, never impossible: two processes that read it at the
    same moment read the same nanoseconds too. And whoever knows one key can guess its neighbours.

    What it costs: one statement, and keys of eleven characters.

    When to use it: never. A time that must be unique needs the same care as any other key.
    """
    key = f"{time_ns() // 1_000_000:x}"
    return ShortUrl.objects.create(key=key, target_url=target_url, **values)
