from collections.abc import Mapping

from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl

VERDICT = "right"
SHOWS = "one statement for all hits that wait, of one key or of several"

# Each further column takes time; Django reads it on first access.
COLUMNS = ["id", "key", "target_url", "hits"]
NAMES = {
    "table": sql.Identifier(ShortUrl._meta.db_table),
    "columns": sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
}
COUNT_KEY = sql.SQL("""
    UPDATE {table} SET hits = hits + %s
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits <= max_hits - %s)
    RETURNING {columns}
""").format(**NAMES)
COUNT_KEYS = sql.SQL("""
    WITH wanted AS (
        SELECT * FROM unnest(%s::text[], %s::bigint[]) AS wanted (key, number)
    ), locked AS (
        SELECT id AS locked_id, number FROM {table} JOIN wanted USING (key)
        WHERE deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - number)
        ORDER BY key FOR NO KEY UPDATE OF {table} SKIP LOCKED
    )
    UPDATE {table} SET hits = hits + number FROM locked WHERE id = locked_id
    RETURNING {columns}
""").format(**NAMES)


def resolve(key: str) -> ShortUrl:
    """Count a hit by the statement that counts several. The service's strategy also records visits.

    Why nothing can go wrong: as in `update_returning`. The statement counts all of its hits or
    none.

    What it costs: one round trip, one row version and one COMMIT for many hits. A hit waits until
    the statement before its own ends. A caller has to combine the hits, as
    project/serving/hit_counter.py does.

    When to use it: where many hits arrive at the same time.
    """
    link = count_key(key, 1)
    if link is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r} with a use left.")
    return link


def count_key(key: str, hits: int) -> ShortUrl | None:
    """Count several hits of one key in one statement, as resolve() counts one.

    Returns the link, whose `hits` include these. Returns None when no live short URL has the key,
    or when fewer uses than `hits` are left.
    """
    return next(iter(ShortUrl.objects.raw(COUNT_KEY, [hits, key, hits])), None)


def count_keys(hits: Mapping[str, int]) -> dict[str, ShortUrl]:
    """Count a number of hits of each key in one statement, which waits for no row.

    Returns each counted link by its key; its `hits` include these. A key is missing when
    count_key() would not count it, or when another transaction has locked its row. For these call
    count_key(), which waits.

    Why nothing can go wrong: SKIP LOCKED waits for no row, so two of these statements cannot
    deadlock, and one locked row delays no other key. The UPDATE changes only rows that the
    statement has locked after checking the conditions on their newest version.
    """
    links = ShortUrl.objects.raw(COUNT_KEYS, [list(hits), list(hits.values())])
    return {link.key: link for link in links}
