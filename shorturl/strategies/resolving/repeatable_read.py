from django.db import OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.exceptions import Contended
from shorturl.models import ShortUrl

VERDICT = "right"
SHOWS = "snapshot isolation, and a retry when PostgreSQL refuses"

# One of the competing processes always succeeds, so this many failures in a row are not due to
# load.
ATTEMPTS = 1_000


def resolve(key: str) -> ShortUrl:
    """Read, add one, write back, and let PostgreSQL refuse when the row has changed.

    After a serialization failure it starts again. Raises Contended after 1,000 attempts, and
    RuntimeError inside a caller's atomic().

    SQL:
        BEGIN
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = 1 WHERE id = …
        COMMIT, or a serialization failure, ROLLBACK, and all of it again

    Why nothing can go wrong: under REPEATABLE READ an UPDATE of a row that has changed since the
    snapshot fails with SQLSTATE 40001 instead of overwriting it. A caller's transaction already has
    its snapshot and cannot be retried from here, so `durable` refuses it.

    What it costs: five round trips, and all of them again for each hit that came in between.

    When to use it: when several reads must be consistent with each other, and the transaction
    writes the rows that it has read. Two transactions that decide by rows that they do not write
    both commit (write skew). That takes SERIALIZABLE, or a lock on every row that was read.
    """
    for _ in range(ATTEMPTS):
        try:
            with transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                short_url = ShortUrl.objects.live().get(key=key)
                short_url.hits += 1
                short_url.save(update_fields=["hits"])
            return short_url
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure):
                raise
    raise Contended(key, ATTEMPTS)
