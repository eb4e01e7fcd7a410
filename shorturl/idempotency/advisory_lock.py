from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

from shorturl.models import KeptAnswer

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> KeptAnswer:
    """Lock the key by name, and look, work and store in one transaction.

    What it does: takes a lock on the hash of caller and key, if it is free, and then does what
    `look_up_then_store` does. It returns the answer, and raises KeptAnswer.InFlight when somebody
    else holds the lock.

    SQL:
        BEGIN
        SELECT pg_try_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_keptanswer WHERE … LIMIT 1
        … the work's own
        INSERT INTO shorturl_keptanswer …
        COMMIT

    Why nothing can go wrong: who has the lock is alone with the key until the transaction ends,
    and looks after whoever had it before has committed the work and its answer, both or neither.
    Whoever is killed has done nothing, and holds no lock. Two keys with the same hash are refused
    needlessly, if they meet, and may come back.

    What it costs: five round trips and the work. Nobody waits.

    When to use it: by default.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(TRY_LOCK, [f"{caller} {key}"])
            (locked,) = cursor.fetchone()
        if not locked:
            raise KeptAnswer.InFlight(key)
        kept = KeptAnswer.objects.filter(caller=caller, key=key).first()
        return kept or KeptAnswer.objects.create(
            caller=caller, key=key, fingerprint=fingerprint, **work()
        )
