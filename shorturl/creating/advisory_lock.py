from collections.abc import Iterable
from typing import Any

from django.db import connection, transaction

from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Lock the candidate key by name, look whether it is free, then insert it.

    What it does: takes a lock on the key itself, which need not exist yet, from before the look
    until the end of the transaction. It returns the short URL, and raises
    ShortUrl.KeySpaceExhausted when all keys exist.

    SQL:
        BEGIN
        SELECT pg_advisory_xact_lock(hashtextextended(…, 0))
        SELECT 1 FROM shorturl_shorturl WHERE key = … LIMIT 1
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT

    Why nothing can go wrong: two processes that draw the same key queue for it, and the second
    looks only after the first has committed. Two keys with the same hash queue needlessly, no
    more. But the lock is advice: an INSERT that does not ask for it can still be in the way, and
    then the unique constraint raises IntegrityError. It must be everybody's way to create.

    What it costs: five round trips. Inside a caller's transaction each lock is held until that
    one ends, and two callers that create two links each can deadlock.

    When to use it: to guard something that no row and no constraint stands for.
    """
    for key in keys:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url, **values)
    raise ShortUrl.KeySpaceExhausted(keys)
