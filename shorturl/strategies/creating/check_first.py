from collections.abc import Iterable
from typing import Any

from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import ShortUrl

VERDICT = "wrong"
STEP = "⛔ 2"
SHOWS = "look before you leap: time of check to time of use"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Look for a free key, then insert it.

    SQL:
        SELECT 1 FROM shorturl_shorturl WHERE key = … LIMIT 1
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …

    What goes wrong: time of check to time of use. Two processes find the same key free, both insert
    it, and the second INSERT raises IntegrityError.

    What it costs: two statements, and one more for each key that exists. Use it only to say in
    advance, more kindly, that a key is taken.
    """
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl.objects.create(key=key, target_url=target_url, **values)
    raise KeySpaceExhausted(keys)
