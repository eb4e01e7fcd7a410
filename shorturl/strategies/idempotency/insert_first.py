from collections.abc import Callable
from typing import Any

from django.db import OperationalError, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.exceptions import InFlight
from shorturl.models import IdempotencyRecord

VERDICT = "right"
SHOWS = "the key first, in the work's transaction"


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> IdempotencyRecord:
    """Insert the key, do the work and store the answer, all in one transaction.

    The record has the status 0 until the work is done. Raises InFlight after lock_timeout.

    SQL:
        BEGIN
        SELECT … FROM shorturl_idempotencyrecord WHERE … LIMIT 21
        SAVEPOINT …
        INSERT INTO shorturl_idempotencyrecord …
        RELEASE SAVEPOINT …, or ROLLBACK TO SAVEPOINT …, and SELECT … once more
        … the work's own
        UPDATE shorturl_idempotencyrecord SET …
        COMMIT

    Why nothing can go wrong: the unique constraint lets one process insert the key. The others wait
    until it has committed the work and its answer, and then find the answer. When the process is
    killed, PostgreSQL rolls all of it back. With three transactions instead of one, a process
    killed after the first of them would leave a key that stays in progress for ever.

    What it costs: seven round trips and the work. A repeated request holds a connection until the
    first one ends, or until lock_timeout.

    When to use it: where a short wait is better for the caller than a refusal and a retry.
    """
    with transaction.atomic():
        try:
            record, is_new = IdempotencyRecord.objects.get_or_create(
                caller=caller, key=key, defaults={"fingerprint": fingerprint, "status": 0}
            )
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
            raise InFlight(key) from error
        if is_new:
            for name, value in work().items():
                setattr(record, name, value)
            record.save()
        return record
