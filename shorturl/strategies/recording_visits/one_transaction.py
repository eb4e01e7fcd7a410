from collections import Counter

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl, VisitCount
from shorturl.visits.classification import Visit

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
UPDATE = sql.SQL("""
    UPDATE {links} SET hits = hits + %s
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits <= max_hits - %s)
    RETURNING {columns}
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    links=sql.Identifier(ShortUrl._meta.db_table),
)
COUNTS = sql.Identifier(VisitCount._meta.db_table)
KIND = sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot")
ROW = sql.SQL(
    "(%s, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', %s, %s, %s, %s, %s, %s, %s)"
)
UPSERT = """
    INSERT INTO {counts} AS counts ({kind}, hits)
    VALUES {rows}
    ON CONFLICT ({kind}) DO UPDATE SET hits = counts.hits + excluded.hits
"""


def record(key: str, visit: Visit, *others: Visit) -> ShortUrl:
    """Count several hits of one key and record their visits in one transaction.

    What it does: counts the hits as `combined` in `resolving` does, upserts the rows of this hour,
    one for each kind of visit, and commits both. It returns the short URL with the number of the
    last hit. It raises ShortUrl.DoesNotExist when no live one has the key, or when fewer uses than
    visits are left; then nothing is recorded.

    SQL:
        BEGIN
        UPDATE shorturl_shorturl SET hits = hits + 1
        WHERE key = … AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - 1)
        RETURNING id, key, …
        INSERT INTO shorturl_visitcount AS counts
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
        VALUES (…, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', …, 1)
        ON CONFLICT
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
        DO UPDATE SET hits = counts.hits + excluded.hits
        COMMIT

    Why nothing can go wrong: both statements are committed together or not at all, also when the
    process is killed between them, and no reader sees one without the other. Each statement is
    right by itself, as in `second_transaction`. Every hit locks the link before the hour's rows,
    and a roll-up waits for no link. So with one kind of visit the two cannot deadlock. Several
    kinds are sorted here by code point, and in a roll-up by the database's collation. So where
    `append_only` has left visits of this hour, the two can deadlock, and PostgreSQL ends one.

    What it costs: four round trips where `upsert` has one, once for many visits. For two of them,
    from the UPDATE to the COMMIT, the link is locked, and its other hits wait. If the process hangs
    before the COMMIT, they wait until PostgreSQL's idle_in_transaction_session_timeout.

    When to use it: where a WITH that changes two tables is slower, such as with tables that are
    distributed over several nodes. Elsewhere use `combined` or `upsert`.
    """
    kinds = sorted(Counter([visit, *others]).items())
    hits, rows = 1 + len(others), sql.SQL(", ").join([ROW] * len(kinds))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(UPDATE, [hits, key, hits])
        row = cursor.fetchone()
        if row is None:
            raise ShortUrl.DoesNotExist(
                f"There is no live short URL {key!r} with {hits} uses left."
            )
        values = [value for kind, number in kinds for value in (key, *kind, number)]
        cursor.execute(sql.SQL(UPSERT).format(counts=COUNTS, kind=KIND, rows=rows), values)
    return ShortUrl.from_db(connection.alias, COLUMNS, row)
