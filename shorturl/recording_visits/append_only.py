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
        INSERT INTO {counts} ({kind}, hits)
        SELECT
            key, date_trunc('hour', statement_timestamp(), 'UTC'), NULL, %s, %s, %s, %s, %s, %s, 1
        FROM followed
    )
    SELECT {columns} FROM followed
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    counts=sql.Identifier(VisitCount._meta.db_table),
    kind=sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot"),
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit and insert a row for the visit, in one statement.

    What it does: counts the hit as `update_returning` does, and inserts a row of its own for the
    visit, without a unit; the roll-up adds such rows up later. It returns the short URL, and raises
    ShortUrl.DoesNotExist when none is live; then nothing is recorded.

    SQL:
        WITH followed AS (
            UPDATE shorturl_shorturl SET hits = hits + 1
            WHERE key = … AND deleted_at IS NULL
                AND (expires_at IS NULL OR expires_at > statement_timestamp())
                AND (max_hits IS NULL OR hits < max_hits)
            RETURNING id, key, …
        ), recorded AS (
            INSERT INTO shorturl_visitcount
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
            SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), NULL, …, 1 FROM followed
        )
        SELECT id, key, … FROM followed

    Why nothing can go wrong: one statement is committed whole or not at all, and an INSERT that
    nothing can be in conflict with waits for nobody: NULLs are distinct. What is added up later is
    deleted and added by one statement, so it is in one place or in the other: see `rolling_up`.

    What it costs: one round trip, and until the next roll-up a row for each visit, with an entry in
    each index, some 250 bytes: a link's page adds up as many as there were visits. The row of the
    link is locked by each hit all the same.

    When to use it: where something of each visit is kept that makes it different from all others,
    as its second, and something runs the roll-up. Here `upsert` does the same with fewer rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key, *visit])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
