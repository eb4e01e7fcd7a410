from random import randrange

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
    """Add one to a random one of the link's 16 slots; the counter is their sum (`TOTAL_HITS`).

    The slots are rows of another table (`PartialCount`), with a unique constraint on key and slot.

    What goes wrong: for a link without a limit and an expiry, nothing. An upsert inserts the slot's
    row or adds to it under the row lock. But `hits` does not include the slots, so a limit is not
    enforced, and no statement could add them up without locking all of them. And as the link's row
    is not locked, a hit that has started is still counted after another process has made the link
    expire.

    What it costs: one round trip. Hits of one link wait for each other only when they draw the same
    slot. A reader of the counter adds up 16 rows, and no caller learns the number of its hit.
    Shlink counts like this, in 101 slots
    (shlinkio/shlink, module/Core/src/Visit/Listener/ShortUrlVisitsCountTracker.php).

    When to use it: for a counter without conditions that many processes write and few read, where
    no process has several hits that one statement could count.
    """
    links = list(ShortUrl.objects.raw(COUNT, [key, randrange(SLOTS)]))  # noqa: S311
    if not links:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return links[0]
