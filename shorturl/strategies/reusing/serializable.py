from collections.abc import Callable

from django.db import OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.exceptions import Contended
from shorturl.models import ShortUrl

VERDICT = "right"
SHOWS = "let PostgreSQL refuse the second one, and try again"

# One of the competing processes always succeeds, so this many failures in a row are not due to
# load.
ATTEMPTS = 1_000


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Look, create, and let PostgreSQL refuse when another process did the same meanwhile.

    It runs `find_then_create` under SERIALIZABLE. Raises Contended after 1,000 attempts, and
    RuntimeError inside a caller's atomic().

    SQL:
        BEGIN
        SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …
        COMMIT, or a serialization failure, ROLLBACK, and all of it again

    Why nothing can go wrong: PostgreSQL takes predicate locks on what a transaction reads, even
    where it finds no row. When two transactions each create a link that the other one did not find,
    PostgreSQL ends one of them. That one starts again and finds the link. Creates at another
    isolation level are not checked, and may add links to the target.

    What it costs: five round trips, and all of them again for each serialization failure. Without
    an index on the target, or on a small table, the predicate lock covers the whole table, and any
    two creates conflict.

    When to use it: where SERIALIZABLE transactions are retried anyway.
    """
    for _ in range(ATTEMPTS):
        try:
            with transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
                link = links.order_by("id").first()
                return (link, False) if link else (create(), True)
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure):
                raise
    raise Contended(target_url, ATTEMPTS)
