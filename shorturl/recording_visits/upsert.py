from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl, VisitCount
from shorturl.visits import Visit

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
COUNT = sql.SQL("""
    WITH followed AS (
        UPDATE {links} SET hits = hits + 1
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits < max_hits)
        RETURNING {columns}
    ), recorded AS (
        INSERT INTO {counts} AS counts ({kind}, hits)
        SELECT
            key, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', %s, %s, %s, %s, %s, %s, 1
        FROM followed
        ON CONFLICT ({kind}) DO UPDATE SET hits = counts.hits + 1
    )
    SELECT {columns} FROM followed
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    counts=sql.Identifier(VisitCount._meta.db_table),
    kind=sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot"),
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit and add to the hour's row, in one statement.

    What it does: counts the hit as `update_returning` does, and upserts the row of this hour and
    kind with what that returns. It returns the short URL, and raises ShortUrl.DoesNotExist when
    none is live; then nothing is recorded.

    SQL:
        WITH followed AS (
            UPDATE shorturl_shorturl SET hits = hits + 1
            WHERE key = … AND deleted_at IS NULL
                AND (expires_at IS NULL OR expires_at > statement_timestamp())
                AND (max_hits IS NULL OR hits < max_hits)
            RETURNING id, key, …
        ), recorded AS (
            INSERT INTO shorturl_visitcount AS counts
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
            SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', …, 1 FROM followed
            ON CONFLICT
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
            DO UPDATE SET hits = counts.hits + 1
        )
        SELECT id, key, … FROM followed

    Why nothing can go wrong: one statement is committed whole or not at all, so that the sum of the
    visits is the counter in every state that anybody can read. The UPDATE looks at the conditions
    under the row lock, again if it had to wait; without a row it returns nothing, and nothing is
    inserted. ON CONFLICT inserts the hour's row or adds to what it holds, whoever else does the
    same: two first visits of an hour make one row.

    What it costs: one round trip, and two rows are written instead of one. Rows grow with hours and
    kinds of visits, and not with visits.

    When to use it: where hits come one at a time, or from as many processes as there are.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key, *visit])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
