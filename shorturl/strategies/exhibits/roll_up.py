"""The roll-up of `slotted_counter` and `append_only`: partial counts go to their links.

One statement deletes a batch of rows and adds what it deletes, so every committed state has each
hit once. Any number can run at once, as each skips the rows that another transaction has locked,
and all lock the links in one order.
"""

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import PartialCount

BATCH = 10_000  # rows of one statement, which locks their links for some 50 ms
MOVE_HITS = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {counts} AS counts WHERE NOT EXISTS (
            SELECT FROM {links} AS link
            WHERE link.key = counts.key AND link.max_hits IS NOT NULL
        ) ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {counts} AS counts USING free WHERE counts.id = free.id
        RETURNING counts.key, counts.hits
    ), sums AS (
        SELECT key, sum(hits) AS hits, count(*) AS rows FROM taken GROUP BY key
    ), locked AS (
        SELECT key FROM {links} WHERE key IN (SELECT key FROM sums)
        ORDER BY id FOR NO KEY UPDATE
    ), added AS (
        UPDATE {links} AS link SET hits = link.hits + sums.hits
        FROM sums JOIN locked ON locked.key = sums.key WHERE link.key = locked.key
    )
    SELECT coalesce(sum(rows), 0) FROM sums
""").format(
    counts=sql.Identifier(PartialCount._meta.db_table),
    links=sql.Identifier(ShortUrl._meta.db_table),
)


def roll_up_hits(batch: int = BATCH) -> int:
    """Move partial counts to their links, in batches; return how many rows were moved.

    Links with a limit are left out: their hits may exceed it. TOTAL_HITS includes them.
    """
    total = 0
    with connection.cursor() as cursor:
        while True:
            cursor.execute(MOVE_HITS, [batch])
            rows = int(cursor.fetchone()[0])
            total += rows
            if rows < batch:
                return total
