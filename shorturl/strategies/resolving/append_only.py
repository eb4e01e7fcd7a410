from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LIVE, ShortUrl
from shorturl.strategies.exhibits.models import PartialCount

VERDICT = "right, unless a link has a limit or an expiry"
SHOWS = "a row for each hit, added up later"

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields if field.attname != "hits"]
COUNT = sql.SQL("""
    WITH link AS (
        SELECT {columns} FROM {links}
        WHERE key = %s AND {live}
    ), counted AS (
        INSERT INTO {counts} (key, hits) SELECT key, 1 FROM link
    )
    SELECT {columns} FROM link
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
    live=LIVE,
    counts=sql.Identifier(PartialCount._meta.db_table),
)


def resolve(key: str) -> ShortUrl:
    """Insert a row for the hit; whoever reads the counter adds the rows up (`TOTAL_HITS`).

    The rows are in another table (`PartialCount`), with an index on the key.

    What goes wrong: for a link without a limit and an expiry, nothing. An INSERT conflicts with no
    other statement. But `hits` does not include the rows of the other table, so a limit is not
    enforced. And as the link's row is not locked, a hit that has started is still counted after
    another process has made the link expire.

    What it costs: one round trip, and no statement waits for a row. A reader of the counter adds up
    one row for each hit, of some 60 bytes, until a timer rolls them up, as `rolling_up` does with
    visits. No caller learns the number of its hit.

    When to use it: for links without conditions, where each hit is stored anyway, with its time or
    its referrer.
    """
    links = list(ShortUrl.objects.raw(COUNT, [key]))
    if not links:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    return links[0]
