from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
UPDATE = sql.SQL("""
    UPDATE {} SET hits = hits + 1
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits < max_hits)
    RETURNING {}
""").format(
    sql.Identifier(ShortUrl._meta.db_table), sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
)


def resolve(key: str) -> ShortUrl:
    """Increment the counter and fetch the row, in one statement.

    What it does: updates the row of the key and builds the object from what the UPDATE returns.
    It returns the short URL with the hits just counted, and raises ShortUrl.DoesNotExist when no
    row was updated, because none is live.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1
        WHERE key = … AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits < max_hits)
        RETURNING id, key, …

    Why nothing can go wrong: reading, adding and writing are one statement, under the row lock
    that every UPDATE takes. There is no time between check and use: a statement that had to wait
    for the row looks again whether it is live, as the row is then; the time is that at which
    PostgreSQL received the statement. The names are bound as identifiers, by the driver's own `sql`
    module, which Django offers for either psycopg.

    What it costs: one round trip, and the row is locked for no longer than the statement takes.

    When to use it: on a hot path, where a round trip counts, and where the new value is wanted.
    """
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [key])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
