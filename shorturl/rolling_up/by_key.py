from datetime import datetime

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import VisitCount

BATCH = 10_000  # rows of one look, and of one transaction
NAMES = {
    "counts": sql.Identifier(VisitCount._meta.db_table),
    "kind": sql.SQL("referrer, browser, system, device, country, is_bot"),
}
TAKE = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {counts}
        WHERE key = %s AND (unit = %s OR (%s IS NULL AND unit IS NULL)) AND starts_at < %s
        ORDER BY starts_at LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {counts} AS counts USING free WHERE counts.key = %s AND counts.id = free.id
        RETURNING counts.*
    )
    SELECT count(*), key, date_trunc(%s, starts_at, 'UTC') AS since, %s, {kind}, sum(hits)::bigint
    FROM taken GROUP BY key, since, {kind} ORDER BY key, since, {kind}
""").format(**NAMES)
ROW = sql.SQL("(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)")
ADD = """
    INSERT INTO {counts} AS counts (key, starts_at, unit, {kind}, hits)
    VALUES {rows}
    ON CONFLICT (key, starts_at, unit, {kind})
    DO UPDATE SET hits = counts.hits + excluded.hits
"""


def roll_up(unit: str | None, into: str, before: datetime) -> int:
    """Move the rows of one link after the other, each in a transaction of its own.

    What it does: reads the keys of the 10,000 oldest rows. Then, for each key, it locks up to
    10,000 rows that nobody else has locked, deletes them, has their sums by the longer time
    returned, upserts these, and commits. It returns how many rows it took; a caller goes on until
    that is less than a batch. Two at once may each take half of one: the next run has the rest.

    SQL:
        SELECT key AS short_url_id FROM shorturl_visitcount
        WHERE (starts_at < … AND unit = …) ORDER BY starts_at ASC LIMIT 10000
        BEGIN
        WITH free AS MATERIALIZED (
            SELECT id FROM shorturl_visitcount
            WHERE key = … AND (unit = … OR …) AND starts_at < …
            ORDER BY starts_at LIMIT 10000 FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM shorturl_visitcount AS counts USING free
            WHERE counts.key = … AND counts.id = free.id
            RETURNING counts.*
        )
        SELECT count(*), key, date_trunc(…, starts_at, 'UTC') AS since, …, sum(hits)::bigint
        FROM taken GROUP BY key, since, … ORDER BY key, since, …
        INSERT INTO shorturl_visitcount AS counts
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
        VALUES (…)
        ON CONFLICT
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
        DO UPDATE SET hits = counts.hits + excluded.hits
        COMMIT

    Why nothing can go wrong: the sums are those of what was deleted, row by row, as it was under
    the lock, and the two statements are committed together or not at all. What the look has found
    only says where to begin: a link whose rows another one has taken meanwhile has none, and what
    is committed later is left for the next time. As in `batches`, rows that others have locked are
    passed, and the rows that it adds to are locked in one order: so two at once never take the same
    row, and neither waits for one that waits for it.

    What it costs: four round trips and a commit for each link, where `batches` has one statement
    for the rows of many: for links with a row each it takes many times as long. In return, only
    visits of one link at a time wait, until its COMMIT; behind a process that hangs before it,
    until PostgreSQL's idle_in_transaction_session_timeout.

    When to use it: where the rows of different links are on different nodes, so that a statement
    can change those of one only; or where no transaction may be longer than one link's work.
    """
    span = {"h": "hour", "d": "day", "m": "month"}[into]
    due = VisitCount.objects.filter(unit=unit, starts_at__lt=before).order_by("starts_at")
    taken = 0
    for key in sorted({*due.values_list("short_url_id", flat=True)[:BATCH]}):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(TAKE, [key, unit, unit, before, BATCH, key, span, into])
            if found := cursor.fetchall():
                rows = sql.SQL(", ").join([ROW] * len(found))
                values = [value for _, *sums in found for value in sums]
                cursor.execute(sql.SQL(ADD).format(**NAMES, rows=rows), values)
        taken += sum(count for count, *_ in found)
    return taken
