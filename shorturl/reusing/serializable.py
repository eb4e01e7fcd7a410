from collections.abc import Callable

from django.db import OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.models import ShortUrl

# One of the competitors always gets through, so this many defeats in a row mean that something
# other than load is wrong.
ATTEMPTS = 1_000


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Look, create, and let PostgreSQL refuse when somebody else did the same meanwhile.

    What it does: runs `find_then_create` under SERIALIZABLE, and starts again when PostgreSQL finds
    that no serial order explains it. It returns the short URL, and whether it is new, and raises
    ShortUrl.Contended after 1,000 attempts, and RuntimeError inside a caller's atomic(), before it
    has sent anything.

    SQL:
        BEGIN
        SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …
        COMMIT, or a serialization failure, ROLLBACK, and all of it again

    Why nothing can go wrong: PostgreSQL remembers what was looked for, also where nothing was
    found. Of two that looked for the same and each created what the other one had not found, it
    ends one, which finds the link when it starts again. Whoever creates a link to that target
    outside of this level is not looked at, and may.

    What it costs: five round trips, and all of them again for each refusal. Without an index on
    the target, or on a small table, it remembers the whole table, and any two that create refuse
    each other.

    When to use it: where transactions of this level are retried anyway.
    """
    for _ in range(ATTEMPTS):
        try:
            with transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
                found = links.order_by("id").first()
                return (found, False) if found else (create(), True)
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure):
                raise
    raise ShortUrl.Contended(target_url, ATTEMPTS)
