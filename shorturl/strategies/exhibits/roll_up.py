"""The roll-ups of `append_only`: single hits go to their links, and single visits to their hours.

Both are safe for the same reason: one statement deletes a batch of rows and adds what it deletes,
so every committed state has each hit once. Any number can run at once, as each skips the rows that
another transaction has locked, and all lock the rows that they add to in one order.
"""

from typing import Any

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl, VisitCount
from shorturl.strategies.exhibits.models import PartialCount, SingleVisit

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
MOVE_VISITS = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {visits} ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {visits} AS visits USING free WHERE visits.id = free.id
        RETURNING visits.*
    ), added AS (
        INSERT INTO {counts} AS counts (key, starts_at, unit, {kind}, hits)
        SELECT key, starts_at, 'h', {kind}, count(*)
        FROM taken GROUP BY key, starts_at, {kind} ORDER BY key, starts_at, {kind}
        ON CONFLICT (key, starts_at, unit, {kind})
        DO UPDATE SET hits = counts.hits + excluded.hits
    )
    SELECT count(*) FROM taken
""").format(
    visits=sql.Identifier(SingleVisit._meta.db_table),
    counts=sql.Identifier(VisitCount._meta.db_table),
    kind=sql.SQL("referrer, browser, system, device, country, is_bot"),
)


def roll_up_hits(batch: int = BATCH) -> int:
    """Move partial counts to their links, in batches; return how many rows were moved.

    Links with a limit are left out: their hits may exceed it. TOTAL_HITS includes them.
    """
    return moved(MOVE_HITS, batch)


def roll_up_visits(batch: int = BATCH) -> int:
    """Move single visits to their hours, in batches; return how many were moved."""
    return moved(MOVE_VISITS, batch)


def moved(statement: Any, batch: int) -> int:
    total = 0
    with connection.cursor() as cursor:
        while True:
            cursor.execute(statement, [batch])
            rows = int(cursor.fetchone()[0])
            total += rows
            if rows < batch:
                return total
