import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.db.backends.utils import CursorWrapper

from shorturl.models import ShortUrl, Visit, VisitCount

VERDICT = "right"
SHOWS = "UPDATE and upsert in one transaction: two statements, committed together"

# Each further column takes time; Django reads it on first access.
COLUMNS = ["id", "key", "target_url", "hits"]
Row = tuple[int, str, str, int]
UPDATE = sql.SQL("""
    UPDATE {table} SET hits = hits + %s
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits <= max_hits - %s)
    RETURNING {columns}
""").format(
    table=sql.Identifier(ShortUrl._meta.db_table),
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
)
KIND = sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot")
ROW = sql.SQL(
    "(%s, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', %s, %s, %s, %s, %s, %s, %s)"
)
UPSERT = sql.SQL("""
    INSERT INTO {table} AS counts ({kind}, hits)
    VALUES {rows}
    ON CONFLICT ({kind}) DO UPDATE SET hits = counts.hits + excluded.hits
""")


# On Citus both IN show that all keys are of one shard; its node then runs the whole statement.
SEVERAL = sql.SQL("""
    WITH locked AS (
        SELECT key AS locked_key FROM {table}
        WHERE key IN %(keys)s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - (%(hits)s::jsonb ->> key)::bigint)
        ORDER BY key FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE {table} SET hits = hits + (%(hits)s::jsonb ->> key)::bigint
    FROM locked WHERE key = locked_key AND key IN %(keys)s
    RETURNING {columns}
""").format(
    table=sql.Identifier(ShortUrl._meta.db_table),
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count a hit and record its visit in one transaction; count_one() does so with several.

    What it does: counts the hit as `combined` in `resolving` does, and upserts the row of this hour
    and kind of visit. It returns the key's live short URL. It raises ShortUrl.DoesNotExist without
    one, and records nothing.

    SQL:
        BEGIN
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = … AND … RETURNING id, key, …
        INSERT INTO shorturl_visitcount AS counts (key, …, hits)
        VALUES (…, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', …, 1)
        ON CONFLICT (key, …) DO UPDATE SET hits = counts.hits + excluded.hits
        COMMIT

    Why nothing can go wrong: both statements are committed together or not at all, and no reader
    sees one without the other. Every hit locks the link before the hour's rows, and a roll-up waits
    for no link. So with one kind of visit the two cannot deadlock. count_one() sorts several kinds
    by code point, and a roll-up by the database's collation. So where `append_only` has left visits
    of this hour, the two can deadlock, and PostgreSQL ends one.

    What it costs: four round trips where `upsert` has one, once for many visits. For two of them,
    from the UPDATE to the COMMIT, the link is locked, and its other hits wait. If the process hangs
    before the COMMIT, they wait until PostgreSQL's idle_in_transaction_session_timeout.

    When to use it: where tables are distributed over several nodes, and a WITH that changes two of
    them is slower. Elsewhere use `combined` or `upsert`.
    """
    with connection.cursor() as cursor:
        row = count_one(key, [visit], cursor)
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r} with a use left.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)


def count_one(key: str, visits: Sequence[Visit], cursor: CursorWrapper) -> Row | None:
    """Count and record several visits to one key in one transaction, as record() does with one.

    It returns the same as count_one() of `combined` in `resolving`. For None, nothing is recorded.
    """
    hits = len(visits)
    with transaction.atomic():
        cursor.execute(UPDATE, [hits, key, hits])
        row: Row | None = cursor.fetchone()
        if row:
            upsert({key: visits}, cursor)
        return row


def count(visits: Mapping[str, Sequence[Visit]], cursor: CursorWrapper) -> dict[str, Row]:
    """Count and record visits to several keys of one shard in one transaction.

    It returns the same and leaves out the same keys as count() of `combined` in `resolving`.

    Why nothing can go wrong: SKIP LOCKED waits for no link, so two of these cannot deadlock. Each
    key that it has counted is locked until the COMMIT, so no other hit writes the key's rows of
    this hour.
    """
    hits = json.dumps({key: len(of_key) for key, of_key in visits.items()})
    with transaction.atomic():
        cursor.execute(SEVERAL, {"keys": tuple(visits), "hits": hits})
        rows = {row[1]: row for row in cursor.fetchall()}
        if rows:
            upsert({key: visits[key] for key in sorted(rows)}, cursor)
        return rows


def upsert(visits: Mapping[str, Sequence[Visit]], cursor: CursorWrapper) -> None:
    """Add visits to the rows of this hour."""
    kinds = [
        (key, *kind, number)
        for key, of_key in visits.items()
        for kind, number in sorted(Counter(of_key).items())
    ]
    values: list[Any] = [value for kind in kinds for value in kind]
    table, rows = sql.Identifier(VisitCount._meta.db_table), sql.SQL(", ").join([ROW] * len(kinds))
    cursor.execute(UPSERT.format(table=table, kind=KIND, rows=rows), values)
