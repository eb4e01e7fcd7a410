from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

from shorturl.exceptions import InFlight
from shorturl.models import IdempotencyRecord

VERDICT = "right"
SHOWS = "lock the key by name, and refuse a request while another one is in flight"

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> IdempotencyRecord:
    """Lock the key by name, and look up, work and store in one transaction.

    Raises InFlight when another request holds the lock.

    SQL:
        BEGIN
        SELECT pg_try_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_idempotencyrecord WHERE … LIMIT 1
        … the work's own
        INSERT INTO shorturl_idempotencyrecord …
        COMMIT

    Why nothing can go wrong: only one process at a time holds the key's lock. The next one looks
    the key up after the first one has committed the work and its answer together, or neither. When
    a process is killed, PostgreSQL rolls its work back and releases its lock. Of two requests whose
    keys have the same hash, one can be refused needlessly, and succeeds when it is sent again.

    What it costs: five round trips and the work. No request waits.

    When to use it: by default.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(TRY_LOCK, [f"{caller} {key}"])
            (locked,) = cursor.fetchone()
        if not locked:
            raise InFlight(key)
        record = IdempotencyRecord.objects.filter(caller=caller, key=key).first()
        return record or IdempotencyRecord.objects.create(
            caller=caller, key=key, fingerprint=fingerprint, **work()
        )
