from django.db import OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.models import ShortUrl

# One of the competitors always gets through, so this many defeats in a row mean that something
# other than load is wrong.
ATTEMPTS = 1_000


def resolve(key: str) -> ShortUrl:
    """Read, add one, write back, and let PostgreSQL refuse when the row has changed.

    What it does: runs the naive code under snapshot isolation, and starts again when the row was
    changed after the snapshot. It returns the short URL, and raises ShortUrl.DoesNotExist when
    none is live, ShortUrl.Contended after 1,000 attempts, and RuntimeError inside a caller's
    atomic(), before it has sent anything.

    SQL:
        BEGIN
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = 1 WHERE id = …
        COMMIT, or a serialization failure, ROLLBACK, and all of it again

    Why nothing can go wrong: under REPEATABLE READ an UPDATE of a row that others have changed
    since the snapshot fails with SQLSTATE 40001 instead of overwriting it, and a transaction that
    failed is retried as a whole. That is why it has to be the whole: a caller's transaction has
    its snapshot already and cannot be retried from in here, so `durable` refuses it.

    What it costs: five round trips, and all of them again for each hit that came in between.

    When to use it: when several reads have to agree with each other, and what is decided by them
    is written to the rows that were read; and the transaction can be retried. It is no help where
    a decision rests on rows that it does not write: two such transactions do not meet, and both
    go through (write skew). That takes SERIALIZABLE, or a lock on all that was read.
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
    raise ShortUrl.Contended(key, ATTEMPTS)
