from datetime import datetime

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import VisitCount

VERDICT = "wrong"
SHOWS = "read, add up, delete what was read: the lost update"

NAMES = {
    "counts": sql.Identifier(VisitCount._meta.db_table),
    "kind": sql.SQL("referrer, browser, system, device, country, is_bot"),
}
READ = sql.SQL("""
    SELECT id, key, date_trunc(%s, starts_at, 'UTC'), %s, {kind}, hits
    FROM {counts} WHERE unit = %s AND starts_at < %s
""").format(**NAMES)
ADD = sql.SQL("""
    INSERT INTO {counts} AS counts (key, starts_at, unit, {kind}, hits)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (key, starts_at, unit, {kind})
    DO UPDATE SET hits = counts.hits + excluded.hits
""").format(**NAMES)


def roll_up(unit: str, into: str, before: datetime) -> int:
    """Read the rows, add each to its longer period, and delete the rows that were read.

    What it does: sends these statements in one transaction. It returns how many rows it read.

    SQL:
        BEGIN
        SELECT id, key, date_trunc(…, starts_at, 'UTC'), …, hits
        FROM shorturl_visitcount WHERE unit = … AND starts_at < …
        INSERT INTO shorturl_visitcount AS counts
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
        VALUES (…)
        ON CONFLICT
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
        DO UPDATE SET hits = counts.hits + excluded.hits
        DELETE FROM shorturl_visitcount WHERE id IN (…)
        COMMIT

    What goes wrong: a visit that is added to a row after the SELECT is deleted with the row: the
    lost update. And two roll-ups that read the same rows both add them, so their visits count
    twice. The transaction prevents neither, because a SELECT locks no row.

    What it costs: a statement for each row, and lost visits.

    When to use it: never. With FOR UPDATE it would be right, but still transfer all rows twice.
    """
    span = {"h": "hour", "d": "day", "m": "month"}[into]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(READ, [span, into, unit, before])
        rows = cursor.fetchall()
        for _, *values in rows:
            cursor.execute(ADD, values)
        VisitCount.objects.filter(id__in=[row[0] for row in rows]).delete()
    return len(rows)
