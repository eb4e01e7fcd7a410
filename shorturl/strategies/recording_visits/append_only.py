from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LIVE, ShortUrl, Visit
from shorturl.strategies.exhibits.models import SingleVisit

VERDICT = "right"
SHOWS = "a row for each visit, added up later"

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
COUNT = sql.SQL("""
    WITH followed AS (
        UPDATE {links} SET hits = hits + 1
        WHERE key = %s AND {live}
        RETURNING {columns}
    ), recorded AS (
        INSERT INTO {visits} (key, starts_at, referrer, browser, system, device, country, is_bot)
        SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), %s, %s, %s, %s, %s, %s
        FROM followed
    )
    SELECT {columns} FROM followed
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    live=LIVE,
    visits=sql.Identifier(SingleVisit._meta.db_table),
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit and insert a row for the visit, in one statement.

    What it does: counts the hit as `update_returning` does, and inserts a row for the visit. It
    returns the short URL. It raises ShortUrl.DoesNotExist when no live one has the key; then
    nothing is recorded. It needs a roll-up (`roll_up_visits()` of `exhibits`), and every reader of
    the visits has to add up both tables.

    SQL:
        WITH followed AS (
            UPDATE shorturl_shorturl SET hits = hits + 1
            WHERE key = … AND deleted_at IS NULL
                AND (expires_at IS NULL OR expires_at > statement_timestamp())
                AND (max_hits IS NULL OR hits < max_hits)
            RETURNING id, key, …
        ), recorded AS (
            INSERT INTO exhibits_singlevisit
            (key, starts_at, referrer, browser, system, device, country, is_bot)
            SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), … FROM followed
        )
        SELECT id, key, … FROM followed

    Why nothing can go wrong: one statement is committed whole or not at all. The INSERT conflicts
    with no other row, so it does not wait. The roll-up deletes and adds in one statement, so each
    visit is in exactly one place.

    What it costs: one round trip. Until the next roll-up there is a row for each visit, and a
    reader adds up all of them. Each hit still locks the link's row.

    When to use it: where each visit stores something unique, such as its second, and a timer runs
    the roll-up. For the visits of this service `upsert` does the same with fewer rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key, *visit])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
