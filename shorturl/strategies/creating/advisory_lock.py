from collections.abc import Iterable
from typing import Any

from django.db import connection, transaction

from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import ShortUrl

VERDICT = "right"
SHOWS = "lock the key, not the table"

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Lock the candidate key by name, check that it is free, then insert it.

    SQL:
        BEGIN
        SELECT pg_advisory_xact_lock(hashtextextended(…, 0))
        SELECT 1 FROM shorturl_shorturl WHERE key = … LIMIT 1
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT

    Why nothing can go wrong: two processes that draw the same key queue for its lock, and the
    second one checks the key only after the first one has committed. Two keys with the same hash
    queue needlessly. Every create has to take the lock: an INSERT without it can still be first,
    and then the unique constraint raises IntegrityError.

    What it costs: five round trips. Inside a caller's transaction each lock is held until that
    transaction ends, and two callers that create two links each can deadlock.

    When to use it: to guard something that has neither a row nor a constraint.
    """
    for key in keys:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(LOCK, [key])
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url, **values)
    raise KeySpaceExhausted(keys)
