"""The strategy that the service runs: it counts hits of several links, and of bots, too."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.backends.utils import CursorWrapper

from shorturl.models import RecentVisits, ShortUrl, Visit

VERDICT = "right"
SHOWS = "one statement for all visits that wait, and a row for each key, added up later"

# Each further column takes time; Django reads it on first access.
COLUMNS = ["id", "key", "target_url", "hits", "forward_query"]
Row = tuple[int, str, str, int, bool]
NAMES = {
    "links": sql.Identifier(ShortUrl._meta.db_table),
    "recent": sql.Identifier(RecentVisits._meta.db_table),
    "columns": sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
}
# `uses` is NULL if a bot is among the visits: then a link with a limit is not counted.
COUNT_KEY = sql.SQL("""
    WITH followed AS (
        UPDATE {links} SET hits = hits + %s
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - %s)
        RETURNING {columns}, %s::jsonb AS kinds
    ), recorded AS (
        INSERT INTO {recent} (key, starts_at, kinds)
        SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), kinds FROM followed
        WHERE kinds IS NOT NULL
    )
    SELECT {columns} FROM followed
""").format(**NAMES)
COUNT_KEYS = sql.SQL("""
    WITH wanted AS (
        SELECT key, number, uses, %s::jsonb -> (position - 1)::integer AS kinds
        FROM unnest(%s::text[], %s::bigint[], %s::bigint[])
            WITH ORDINALITY AS wanted (key, number, uses, position)
    ), locked AS (
        SELECT id AS locked_id, number, kinds FROM {links} JOIN wanted USING (key)
        WHERE deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - uses)
        ORDER BY key FOR NO KEY UPDATE OF {links} SKIP LOCKED
    ), followed AS (
        UPDATE {links} SET hits = hits + number FROM locked WHERE id = locked_id
        RETURNING {columns}, kinds
    ), recorded AS (
        INSERT INTO {recent} (key, starts_at, kinds)
        SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), kinds FROM followed
        WHERE kinds IS NOT NULL
    )
    SELECT {columns} FROM followed
""").format(**NAMES)


def record(key: str, visit: Visit, *, keep: bool = True) -> ShortUrl:
    """Record a visit by the statement that records several to a link.

    The visit is inserted as JSON, in a row of its own. Nothing is recorded for a bot's visit to a
    link with a limit. Without `keep` only the hit is counted.

    Why nothing can go wrong: one statement adds as many visits as hits, or nothing, as in `upsert`.
    Statements of one link wait for its row lock, and the INSERT conflicts with no other row. The
    roll-up deletes and adds in one statement, so each visit is counted once.

    What it costs: one round trip, and two written rows for many visits. Until the next roll-up
    there is a row for each statement, and a link's page reads all of them.

    When to use it: where many visits arrive at the same time, a caller combines them, and a timer
    runs the roll-up.
    """
    with connection.cursor() as cursor:
        row = count_one(key, [visit], cursor, keep=keep)
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r} with a use left.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)


def count_one(
    key: str, visits: Sequence[Visit], cursor: CursorWrapper, *, keep: bool = True
) -> Row | None:
    """Count and record several visits to one key in one statement, as record() does with one.

    Returns the columns of the link, with the number of the last hit. Returns None, and records
    nothing, when no live short URL has the key, when fewer uses than visits are left, or when the
    link has a limit and a bot is among the visits.
    """
    cursor.execute(COUNT_KEY, key_values(key, visits, keep=keep))
    row: Row | None = cursor.fetchone()
    return row


def count(
    visits: Mapping[str, Sequence[Visit]], cursor: CursorWrapper, *, keep: bool = True
) -> dict[str, Row]:
    """Count and record visits to several keys in one statement, which waits for no link.

    Returns the columns of each counted link by its key, with the number of the last hit. A key is
    missing when count_one() would not count it, or when another transaction has locked its row. For
    these call count_one(), which waits.

    Why nothing can go wrong: SKIP LOCKED waits for no row, so two of these statements cannot
    deadlock. The UPDATE changes only rows that it has locked, and the same statement inserts their
    visits.
    """
    cursor.execute(COUNT_KEYS, keys_values(visits, keep=keep))
    return {row[1]: row for row in cursor.fetchall()}


def key_values(key: str, visits: Sequence[Visit], *, keep: bool = True) -> list[Any]:
    """Return the values of COUNT_KEY."""
    return [len(visits), key, count_uses(visits), as_json(visits) if keep else None]


def keys_values(visits: Mapping[str, Sequence[Visit]], *, keep: bool = True) -> list[Any]:
    """Return the values of COUNT_KEYS."""
    kinds = f"[{','.join(map(as_json, visits.values()))}]" if keep else None
    numbers, uses = map(len, visits.values()), map(count_uses, visits.values())
    return [kinds, list(visits), as_array(numbers), as_array(uses)]


def count_uses(visits: Sequence[Visit]) -> int | None:
    """Return how many uses the visits take of a link with a limit.

    None stands for visits of bots, which are not redirected by such a link.
    """
    return None if any(visit.is_bot for visit in visits) else len(visits)


def as_array(numbers: Iterable[int | None]) -> str:
    """Return an array as PostgreSQL writes it. The driver takes longer for a list."""
    return f"{{{','.join('NULL' if number is None else str(number) for number in numbers)}}}"


def as_json(visits: Sequence[Visit]) -> str:
    """Return a JSON array of visits; a visit is an array, too."""
    return f"[{','.join(map(values, visits))}]"


@lru_cache(4_000)
def values(visit: Visit) -> str:
    return json.dumps(visit)
