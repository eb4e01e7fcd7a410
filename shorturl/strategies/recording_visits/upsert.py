from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LIVE, HourlyVisits, ShortUrl, Visit

VERDICT = "right"
SHOWS = "UPDATE and upsert in one statement, a data-modifying WITH"

COUNT = sql.SQL("""
    WITH followed AS (
        UPDATE {links} SET hits = hits + 1
        WHERE key = %s AND {live}
        RETURNING *
    ), recorded AS (
        INSERT INTO {hours} AS counts (key, hour, people, bots)
        SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), %s, %s FROM followed
        ON CONFLICT (key, hour) DO UPDATE
        SET people = counts.people + excluded.people, bots = counts.bots + excluded.bots
    )
    SELECT * FROM followed
""").format(
    links=sql.Identifier(ShortUrl._meta.db_table),
    hours=sql.Identifier(HourlyVisits._meta.db_table),
    live=LIVE,
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit and add to the hour's row, in one statement.

    Why nothing can go wrong: one statement is committed whole or not at all, so in every committed
    state the sum of the visits is the counter. The UPDATE checks the conditions under the row lock,
    and again if it had to wait. If it updates no row, nothing is inserted. ON CONFLICT makes one
    row of two first visits of an hour.

    What it costs: one round trip, and two written rows. The number of rows grows with hours, not
    with visits. Whatever else is kept of a visit, such as its browser, needs a further row.

    When to use it: where only the number of visits is wanted, and no caller combines hits.
    """
    links = list(ShortUrl.objects.raw(COUNT, [key, int(not visit.is_bot), int(visit.is_bot)]))
    if not links:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return links[0]
