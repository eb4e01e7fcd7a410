"""The roll-up of recent visits, which adds them to the hours of VisitCount."""

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import RecentVisits, VisitCount

BATCH = 1_000  # rows of one statement; each has the visits of a link that waited together
MOVE = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {recent} ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {recent} AS recent USING free WHERE recent.id = free.id
        RETURNING recent.*
    ), visits AS (
        SELECT key, starts_at, kind ->> 0 AS referrer, kind ->> 1 AS browser, kind ->> 2 AS system,
            kind ->> 3 AS device, kind ->> 4 AS country, (kind ->> 5)::boolean AS is_bot
        FROM taken, jsonb_array_elements(kinds) AS kind
    ), added AS (
        INSERT INTO {counts} AS counts (key, starts_at, unit, {kind}, hits)
        SELECT key, starts_at, 'h', {kind}, count(*)
        FROM visits GROUP BY key, starts_at, {kind} ORDER BY key, starts_at, {kind}
        ON CONFLICT (key, starts_at, unit, {kind})
        DO UPDATE SET hits = counts.hits + excluded.hits
    )
    SELECT count(*) FROM taken
""").format(
    recent=sql.Identifier(RecentVisits._meta.db_table),
    counts=sql.Identifier(VisitCount._meta.db_table),
    kind=sql.SQL("referrer, browser, system, device, country, is_bot"),
)


def roll_up() -> int:
    """Move the recent visits in batches of one statement each; return how many rows it took.

    It is safe for the same reasons as `batches` in shorturl/strategies/rolling_up/. It ends after a
    batch that is not full, so visits that are recorded meanwhile do not keep it busy.
    """
    total = 0
    with connection.cursor() as cursor:
        while True:
            cursor.execute(MOVE, [BATCH])
            taken = int(cursor.fetchone()[0])
            total += taken
            if taken < BATCH:
                return total
