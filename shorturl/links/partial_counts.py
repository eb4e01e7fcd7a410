"""The roll-up of partial counts; `append_only` needs it, and a change of strategy can use it."""

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Exists, OuterRef

from shorturl.models import PartialCount, ShortUrl

BATCH = 10_000  # rows of one statement, which locks their links for some 50 ms

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
# It locks the counts before the link, as MOVE does, so the two cannot deadlock.
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
    """Set a link's limit, and move its partial counts into its own counter."""
    with connection.cursor() as cursor:
        cursor.execute(GATHER, [key, max_hits, key])


def roll_up(batch: int = BATCH) -> int:
    """Move the partial counts into their links' own counters; return how many hits were moved.

    One statement deletes up to `batch` rows and adds their hits, so every committed state has each
    hit once. A roll-up that is killed has moved whole batches. Any number can run at once: each
    skips the rows that another roll-up or a hit has locked, and all lock links in one order.

    Links with a limit are left out: gather() has moved their counts, and hits that were counted
    while it ran may exceed the limit. with_total_hits() includes them.
    """
    limited = ShortUrl.objects.filter(key=OuterRef("short_url_id"), max_hits__isnull=False)
    if not PartialCount.objects.exclude(Exists(limited)).exists():
        return 0  # a cluster refuses MOVE, because it changes many links
    moved = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(MOVE, [batch])
            rows, hits = map(int, cursor.fetchone())
        moved += hits
        if rows < batch:
            return moved
