"""The roll-up of partial counts: what `append_only` needs, and a change of strategy may want."""

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Exists, OuterRef

from shorturl.models import PartialCount, ShortUrl

BATCH = 10_000  # rows of one statement: some 50 ms of a lock on the links that it adds to

TABLES = {
    "counts": sql.Identifier(PartialCount._meta.db_table),
    "links": sql.Identifier(ShortUrl._meta.db_table),
}
MOVE = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {counts} AS counts WHERE NOT EXISTS (
            SELECT FROM {links} AS link
            WHERE link.key = counts.key AND link.max_hits IS NOT NULL
        ) ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {counts} AS counts USING free WHERE counts.id = free.id
        RETURNING counts.key, counts.hits
    ), sums AS (
        SELECT key, sum(hits) AS hits, count(*) AS rows FROM taken GROUP BY key
    ), locked AS (
        SELECT key FROM {links} WHERE key IN (SELECT key FROM sums)
        ORDER BY id FOR NO KEY UPDATE
    ), added AS (
        UPDATE {links} AS link SET hits = link.hits + sums.hits
        FROM sums JOIN locked ON locked.key = sums.key WHERE link.key = locked.key
    )
    SELECT coalesce(sum(rows), 0), coalesce(sum(hits), 0) FROM sums
""").format(**TABLES)


# The counts before the link, as above, so that the two cannot deadlock.
GATHER = sql.SQL("""
    WITH taken AS (
        DELETE FROM {counts} WHERE key = %s RETURNING hits
    )
    UPDATE {links} SET
        hits = hits + (SELECT coalesce(sum(hits), 0) FROM taken),
        max_hits = %s
    WHERE key = %s
""").format(**TABLES)


def gather(key: str, max_hits: int) -> None:
    """Give a link a limit, and its own counter what was counted elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute(GATHER, [key, max_hits, key])


def roll_up(batch: int = BATCH) -> int:
    """Move the partial counts there are into their links' own counters; return how many hits.

    One statement deletes up to `batch` rows and adds what they held, so that every committed state
    has each hit once, and a roll-up that is killed has moved a batch or not. Any number may run at
    once: each skips the rows that another one, or a hit, has locked, and they lock links in one
    order.

    Links with a limit are left out: gather() has moved what they had, and what was under way at
    that moment may not fit into the limit any more. with_total_hits() has it all the same.
    """
    moved = 0
    limited = ShortUrl.objects.filter(key=OuterRef("short_url_id"), max_hits__isnull=False)
    if not PartialCount.objects.exclude(Exists(limited)).exists():
        return moved  # the statement is of many links, which a cluster refuses
    while True:
        with connection.cursor() as cursor:
            cursor.execute(MOVE, [batch])
            rows, hits = map(int, cursor.fetchone())
        moved += hits
        if rows < batch:
            return moved
