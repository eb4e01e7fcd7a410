from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LIVE, ShortUrl, Visit, VisitCount

VERDICT = "wrong"
SHOWS = "the visit in a second transaction: a crash between the two loses it"

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
UPDATE = sql.SQL("""
    UPDATE {table} SET hits = hits + 1
    WHERE key = %s AND {live}
    RETURNING {columns}
""").format(
    table=sql.Identifier(ShortUrl._meta.db_table),
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    live=LIVE,
)
KIND = sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot")
UPSERT = sql.SQL("""
    INSERT INTO {table} AS counts ({kind}, hits)
    VALUES (%s, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', %s, %s, %s, %s, %s, %s, 1)
    ON CONFLICT ({kind}) DO UPDATE SET hits = counts.hits + 1
""").format(table=sql.Identifier(VisitCount._meta.db_table), kind=KIND)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit, and record the visit after the COMMIT.

    What it does: counts the hit as `update_returning` does, and upserts the row of this hour and
    kind of visit. It returns the key's live short URL, or raises ShortUrl.DoesNotExist without one.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = … AND … RETURNING id, key, …
        INSERT INTO shorturl_visitcount AS counts (key, …, hits)
        VALUES (…, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', …, 1)
        ON CONFLICT (key, …) DO UPDATE SET hits = counts.hits + 1

    What goes wrong: each statement is right, but the two are not atomic. A reader between them sees
    a hit without a visit. When the process is killed between them, or the second statement fails,
    the visit is lost for ever. A task queue that records the visits later has the same fault.

    What it costs: two statements and two commits, where one would do.

    When to use it: never. `one_transaction` puts both in one transaction, and `upsert` in one
    statement.
    """
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [key])
        row = cursor.fetchone()
        if row is None:
            raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
        short_url = ShortUrl.from_db(connection.alias, COLUMNS, row)
        cursor.execute(UPSERT, [short_url.key, *visit])
    return short_url
