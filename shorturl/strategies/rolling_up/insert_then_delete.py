from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import HourlyVisits, RecentVisits

VERDICT = "wrong"
SHOWS = "add all rows up, then delete all rows: one that is committed between them is lost"

NAMES = {
    "recent": sql.Identifier(RecentVisits._meta.db_table),
    "hours": sql.Identifier(HourlyVisits._meta.db_table),
}
ADD = sql.SQL("""
    INSERT INTO {hours} AS counts (key, hour, people, bots)
    SELECT key, starts_at, count(*) FILTER (WHERE visit ->> 5 = 'false'),
        count(*) FILTER (WHERE visit ->> 5 = 'true')
    FROM {recent}, jsonb_array_elements(kinds) AS visit
    GROUP BY key, starts_at ORDER BY key, starts_at
    ON CONFLICT (key, hour) DO UPDATE
    SET people = counts.people + excluded.people, bots = counts.bots + excluded.bots
""").format(**NAMES)
DELETE = sql.SQL("DELETE FROM {recent}").format(**NAMES)


def roll_up() -> int:
    """Add up all rows, and then delete all rows.

    What goes wrong: under READ COMMITTED each statement sees the rows that are committed when it
    begins. A row that is committed between the two is deleted without being added. And two
    roll-ups at once both add rows that one of them deletes. To delete only the ids that were read
    cures the first fault and not the second; to delete by the largest id or a time loses the rows
    that are committed late (see `watermark` of delivering).

    What it costs: two statements, and lost visits.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(ADD)
        cursor.execute(DELETE)
        return int(cursor.rowcount)
