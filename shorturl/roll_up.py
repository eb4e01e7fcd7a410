"""The roll-up of partial counts: what `append_only` needs, and a change of strategy may want."""

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import PartialCount, ShortUrl

BATCH = 10_000  # rows of one statement: some 50 ms of a lock on the links that it adds to

MOVE = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {counts} ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {counts} AS counts USING free WHERE counts.id = free.id
        RETURNING counts.short_url_id, counts.hits
    ), sums AS (
        SELECT short_url_id, sum(hits) AS hits, count(*) AS rows FROM taken GROUP BY short_url_id
    ), locked AS (
        SELECT id FROM {links} WHERE id IN (SELECT short_url_id FROM sums)
        ORDER BY id FOR NO KEY UPDATE
    ), added AS (
        UPDATE {links} AS link SET hits = link.hits + sums.hits
        FROM sums JOIN locked ON locked.id = sums.short_url_id WHERE link.id = locked.id
    )
    SELECT coalesce(sum(rows), 0), coalesce(sum(hits), 0) FROM sums
""").format(
    counts=sql.Identifier(PartialCount._meta.db_table),
    links=sql.Identifier(ShortUrl._meta.db_table),
)


def roll_up(batch: int = BATCH) -> int:
    """Move the partial counts there are into their links' own counters; return how many hits.

    One statement deletes up to `batch` rows and adds what they held, so that every committed state
    has each hit once, and a roll-up that is killed has moved a batch or not. Any number may run at
    once, at any time: each skips the rows that another one, or a hit, has locked, and they lock
    links in one order. Ends with the first batch that is not full.
    """
    moved = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(MOVE, [batch])
            rows, hits = map(int, cursor.fetchone())
        moved += hits
        if rows < batch:
            return moved
