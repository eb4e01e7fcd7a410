from collections.abc import Callable
from typing import Any

from django.db import OperationalError, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.models import KeptAnswer


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> KeptAnswer:
    """Insert the key, do the work and store the answer, all in one transaction.

    What it does: inserts a row without an answer, and adds the answer when the work is done. It
    returns the answer, and raises KeptAnswer.InFlight after lock_timeout.

    SQL:
        BEGIN
        SELECT … FROM shorturl_keptanswer WHERE … LIMIT 21
        SAVEPOINT …
        INSERT INTO shorturl_keptanswer …
        RELEASE SAVEPOINT …, or ROLLBACK TO SAVEPOINT …, and SELECT … once more
        … the work's own
        UPDATE shorturl_keptanswer SET …
        COMMIT

    Why nothing can go wrong: the unique constraint lets one process insert the key, and has the
    others wait until it has committed, with the work and its answer; then they find that. When it
    is killed, all of it is undone, and one of the others does the work. In three transactions
    instead of one, whoever is killed after the first leaves a key that is in progress for ever.

    What it costs: seven round trips and the work. Whoever repeats a request while the first is at
    work holds a connection until that one ends, or lock_timeout does.

    When to use it: where a short wait is better for the caller than to be told to come back.
    """
    with transaction.atomic():
        try:
            kept, is_new = KeptAnswer.objects.get_or_create(
                caller=caller, key=key, defaults={"fingerprint": fingerprint}
            )
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
            raise KeptAnswer.InFlight(key) from error
        if is_new:
            for name, value in work().items():
                setattr(kept, name, value)
            kept.save()
        return kept
