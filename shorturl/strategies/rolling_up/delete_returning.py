from datetime import datetime

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import VisitCount

VERDICT = "right"
SHOWS = "DELETE … RETURNING into an upsert: one statement"

MOVE = sql.SQL("""
    WITH taken AS (
        DELETE FROM {counts}
        WHERE unit = %s AND starts_at < %s
        RETURNING *
    ), added AS (
        INSERT INTO {counts} AS counts (key, starts_at, unit, {kind}, hits)
        SELECT key, date_trunc(%s, starts_at, 'UTC') AS since, %s, {kind}, sum(hits)
        FROM taken GROUP BY key, since, {kind} ORDER BY key, since, {kind}
        ON CONFLICT (key, starts_at, unit, {kind})
        DO UPDATE SET hits = counts.hits + excluded.hits
    )
    SELECT count(*) FROM taken
""").format(
    counts=sql.Identifier(VisitCount._meta.db_table),
    kind=sql.SQL("referrer, browser, system, device, country, is_bot"),
)


def roll_up(unit: str, into: str, before: datetime) -> int:
    """Delete the rows, and upsert the sums of the deleted rows, in one statement.

    What it does: moves all rows to the rows of their longer period. It returns how many it took.

    SQL:
        WITH taken AS (
            DELETE FROM shorturl_visitcount WHERE unit = … AND starts_at < …
            RETURNING *
        ), added AS (
            INSERT INTO shorturl_visitcount AS counts
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
            SELECT key, date_trunc(…, starts_at, 'UTC') AS since, …, sum(hits)
            FROM taken GROUP BY key, since, … ORDER BY key, since, …
            ON CONFLICT
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
            DO UPDATE SET hits = counts.hits + excluded.hits
        )
        SELECT count(*) FROM taken

    Why nothing can go wrong: it adds exactly the rows that the DELETE returns, as they were under
    their locks. A visit that was committed before is included. A later visit waits for the row,
    finds it deleted, and inserts a new row for the next roll-up. A row that is committed later is
    not deleted. One statement is committed whole or not at all, so every committed state has each
    visit once, and a roll-up that is killed has changed nothing.

    What it costs: all rows stay locked until the statement ends, and visits of the same hour wait.
    Two roll-ups at once do the work once. If they lock the rows in different orders, PostgreSQL
    ends one of them as a deadlock; nothing is lost, and it has to be tried again.

    When to use it: where all rows take about a second, and one process rolls up.
    """
    span = {"h": "hour", "d": "day", "m": "month"}[into]
    with connection.cursor() as cursor:
        cursor.execute(MOVE, [unit, before, span, into])
        return int(cursor.fetchone()[0])
