from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import PartialCount, ShortUrl

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields if field.attname != "hits"]
COUNT = sql.SQL("""
    WITH link AS (
        SELECT {columns} FROM {links}
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits < max_hits)
    ), counted AS (
        INSERT INTO {counts} (key, hits) SELECT key, 1 FROM link
    )
    SELECT {columns} FROM link
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    counts=sql.Identifier(PartialCount._meta.db_table),
)


def resolve(key: str) -> ShortUrl:
    """Insert a row for the hit, to be added up later.

    What it does: reads the short URL and inserts a row into another table, in one statement. It
    returns the short URL without `hits`, which it does not know, and raises ShortUrl.DoesNotExist
    when none is live. It needs a table with the columns key and hits (`PartialCount`), an
    index on the first, and `roll_up()`, which moves the rows into the link's own counter every now
    and then; whoever shows the counter adds up both (`with_total_hits()`).

    SQL:
        WITH link AS (
            SELECT id, key, … FROM shorturl_shorturl
            WHERE key = … AND deleted_at IS NULL
                AND (expires_at IS NULL OR expires_at > statement_timestamp())
                AND (max_hits IS NULL OR hits < max_hits)
        ), counted AS (
            INSERT INTO shorturl_partialcount (key, hits) SELECT key, 1 FROM link
        )
        SELECT id, key, … FROM link

    What goes wrong: without a limit or an expiry, nothing. An INSERT changes nothing that anybody
    else reads or writes, and what is moved later is deleted and added by one statement, so it is in
    one place or in the other. But `hits` does not know what waits in the other table, so that a
    limit stops nobody; and as no row is locked that others write, a hit under way is counted after
    the link was made to expire.

    What it costs: one round trip, and nobody ever waits for a row. Until the next roll-up, to read
    a counter is to add up a row for each hit, some 60 bytes of table and index each; and no caller
    learns the number of its hit.

    When to use it: for links without conditions, where each hit is kept anyway, with its time or
    referrer, and something runs the roll-up.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
