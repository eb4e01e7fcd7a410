from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LIVE, ShortUrl, Visit, VisitCount

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
KIND = sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot")
COUNT = sql.SQL("""
    WITH followed AS (
        UPDATE {links} SET hits = hits + 1
        WHERE key = %s AND {live}
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
    links=sql.Identifier(ShortUrl._meta.db_table),
    counts=sql.Identifier(VisitCount._meta.db_table),
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    live=LIVE,
    kind=KIND,
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit and add to the hour's row, in one statement.

    What it does: counts the hit as `update_returning` does, and upserts the row of this hour and
    kind of visit if the UPDATE has returned a row. It returns the short URL. It raises
    ShortUrl.DoesNotExist when no live one has the key; then nothing is recorded.

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

    Why nothing can go wrong: one statement is committed whole or not at all, so in every committed
    state the sum of the visits is the counter. The UPDATE checks the conditions under the row lock,
    and again if it had to wait. If it updates no row, nothing is inserted. ON CONFLICT inserts the
    hour's row or adds to it, so two first visits of an hour make one row.

    What it costs: one round trip, and two rows are written instead of one. The number of rows grows
    with hours and kinds of visits, not with visits.

    When to use it: where no caller combines hits.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key, *visit])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
