from collections.abc import Iterable
from typing import Any

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import ShortUrl

VERDICT = "right"
STEP = "✅ 1"
SHOWS = "lock the whole table: right, and one create at a time"

LOCK = sql.SQL("LOCK TABLE {table} IN EXCLUSIVE MODE").format(
    table=sql.Identifier(ShortUrl._meta.db_table)
)


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Lock the table, look for a free key, then insert it.

    SQL:
        BEGIN
        LOCK TABLE shorturl_shorturl IN EXCLUSIVE MODE
        SELECT 1 FROM shorturl_shorturl WHERE key = … LIMIT 1
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT

    Why nothing can go wrong: EXCLUSIVE MODE conflicts with every INSERT, UPDATE and DELETE, so
    nothing changes between check and use. Plain reads do not wait.

    What it costs: one create at a time, and meanwhile no hit is counted. Inside a caller's
    transaction the lock is held until that transaction ends. Two callers deadlock over it if each
    has already written to the table.

    When to use it: for a rare job during which the table must not change, never in a request.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(LOCK)
        for key in keys:
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url, **values)
    raise KeySpaceExhausted(keys)
