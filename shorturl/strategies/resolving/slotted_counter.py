from random import randrange

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LIVE, ShortUrl
from shorturl.strategies.exhibits.models import PartialCount

VERDICT = "right, unless a link has a limit or an expiry"
SHOWS = "many rows for one counter: a hit adds to a random one"

SLOTS = 16  # of each link, and so the most hits of a link that can be counted at the same time
COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields if field.attname != "hits"]
COUNT = sql.SQL("""
    WITH link AS (
        SELECT {columns} FROM {links}
        WHERE key = %s AND {live}
    ), counted AS (
        INSERT INTO {counts} AS counts (key, slot, hits) SELECT key, %s, 1 FROM link
        ON CONFLICT (key, slot) DO UPDATE SET hits = counts.hits + 1
    )
    SELECT {columns} FROM link
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    live=LIVE,
    counts=sql.Identifier(PartialCount._meta.db_table),
)


def resolve(key: str) -> ShortUrl:
    """Add one to a random one of the link's slots; the counter is the sum of the slots.

    Each link has up to 16 rows in another table (`PartialCount`), with a unique constraint on key
    and slot. Every reader of the counter has to add up the slots (`TOTAL_HITS`).

    What goes wrong: for a link without a limit and an expiry, nothing. An upsert inserts the slot's
    row or adds to it under the row lock, however many processes do so at the same time. But `hits`
    does not include the slots, so a limit is not enforced, and no statement could add them up
    without locking all of them. And as the link's row is not locked, a hit that has started is
    still counted after another process has made the link expire.

    What it costs: one round trip. Hits of one link wait for each other only when they draw the same
    slot. No hit locks the link, so an edit does not wait. A reader of the counter adds up 16 rows,
    and no caller learns the number of its hit. Shlink counts like this, in 101 slots
    (shlinkio/shlink, module/Core/src/Visit/Listener/ShortUrlVisitsCountTracker.php).

    When to use it: for a counter without conditions that is written by many processes and read
    seldom, where each process has one thread and so no hits for `combined` to combine.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [key, randrange(SLOTS)])  # noqa: S311
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
