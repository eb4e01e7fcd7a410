from random import randrange

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import PartialCount, ShortUrl

SLOTS = 16  # of each link: as many hits of it as can be counted at once, if chance keeps them apart
COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields if field.attname != "hits"]
COUNT = sql.SQL("""
    WITH link AS (
        SELECT {columns} FROM {links}
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits < max_hits)
    ), counted AS (
        INSERT INTO {counts} AS counts (key, slot, hits) SELECT key, %s, 1 FROM link
        ON CONFLICT (key, slot) DO UPDATE SET hits = counts.hits + 1
    )
    SELECT {columns} FROM link
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    counts=sql.Identifier(PartialCount._meta.db_table),
)


def resolve(key: str) -> ShortUrl:
    """Add one to a random one of the link's slots; the counter is their sum.

    What it does: reads the short URL and upserts a row of another table, of which each link has up
    to 16, in one statement. It returns the short URL without `hits`, which it does not know, and
    raises ShortUrl.DoesNotExist when none is live. It needs a table with the columns
    key, slot and hits, and a unique constraint on the first two (`PartialCount`);
    whoever shows the counter adds them up (`with_total_hits()`).

    SQL:
        WITH link AS (
            SELECT id, key, … FROM shorturl_shorturl
            WHERE key = … AND deleted_at IS NULL
                AND (expires_at IS NULL OR expires_at > statement_timestamp())
                AND (max_hits IS NULL OR hits < max_hits)
        ), counted AS (
            INSERT INTO shorturl_partialcount AS counts (key, slot, hits)
            SELECT key, …, 1 FROM link
            ON CONFLICT (key, slot) DO UPDATE SET hits = counts.hits + 1
        )
        SELECT id, key, … FROM link

    What goes wrong: without a limit or an expiry, nothing. An upsert inserts the slot's row or adds
    to what it holds, under the row lock, whoever else does the same. But `hits` does not know what
    is in the slots, so that a limit stops nobody, and no statement could add them up without
    locking all; and as the link is not locked, a hit under way is counted after it was made to
    expire.

    What it costs: one round trip. Hits of one link wait for each other only where they draw the
    same slot, and no hit locks the link, so that an edit does not wait. To read a counter is to
    add up 16 rows, and no caller learns the number of its hit. Shlink counts like this, in 101
    slots (shlinkio/shlink, module/Core/src/Visit/Listener/ShortUrlVisitsCountTracker.php).

    When to use it: for a counter without conditions that many processes or machines write and few
    read, where `combined` has nothing to combine: one thread in each process.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key, randrange(SLOTS)])  # noqa: S311
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
