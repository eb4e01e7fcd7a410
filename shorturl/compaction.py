"""The compaction of visits: of times with many kinds, the dimensions are kept, and not the kinds.

A popular link has hundreds of kinds of visits in an hour, as many as referrers, browsers, systems,
devices and countries are combined. What is shown tells them apart by one dimension at a time. So
the rows of the kinds make room for rows that have the value of one dimension each, and ANY in the
others: far fewer, and none of the numbers that are shown changes. VisitCount says how both add up.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import VisitCount
from shorturl.models.hit_counts import ANY
from shorturl.rolling_up.batches import BATCH

# Kinds of a link in one time. Fewer are read as quickly as what they would become, which for very
# few kinds is more rows: five for one kind alone.
CROWDED = 50
# Rows of one look, some 2 to 4 s of the 10 that a statement has. A link that is followed so much is
# crowded in the first ones, too; one that is not found keeps its kinds.
LOOKED_AT = 1_000_000

NAMES = {
    "counts": sql.Identifier(VisitCount._meta.db_table),
    "dimensions": sql.SQL("referrer, browser, system, device, country"),
    "any": sql.Literal(ANY),
}
LATEST = sql.SQL("""
    SELECT date_trunc(%s, max(starts_at), 'UTC') FROM {counts} WHERE unit = %s AND starts_at < %s
""").format(**NAMES)
FIND = sql.SQL("""
    WITH looked_at AS (
        SELECT short_url_id, {dimensions}, is_bot FROM {counts}
        WHERE unit = %s AND starts_at >= %s AND starts_at < %s AND {any} NOT IN ({dimensions})
        LIMIT %s
    ), kinds AS (
        SELECT DISTINCT * FROM looked_at
    )
    SELECT short_url_id FROM kinds GROUP BY short_url_id HAVING count(*) > %s
""").format(**NAMES)
MOVE = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {counts}
        WHERE short_url_id = %s AND unit = %s AND starts_at >= %s AND starts_at < %s
            AND {any} NOT IN ({dimensions})
        LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {counts} AS counts USING free WHERE counts.id = free.id
        RETURNING counts.*
    ), added AS (
        INSERT INTO {counts} AS counts (short_url_id, starts_at, unit, {dimensions}, is_bot, hits)
        SELECT short_url_id, date_trunc(%s, starts_at, 'UTC') AS since, %s,
            coalesce(referrer, {any}) AS referrer, coalesce(browser, {any}) AS browser,
            coalesce(system, {any}) AS system, coalesce(device, {any}) AS device,
            coalesce(country, {any}) AS country, is_bot, sum(hits)
        FROM taken GROUP BY short_url_id, since, is_bot, GROUPING SETS ({dimensions})
        ORDER BY short_url_id, since, {dimensions}, is_bot
        ON CONFLICT (short_url_id, starts_at, unit, {dimensions}, is_bot)
        DO UPDATE SET hits = counts.hits + excluded.hits
    )
    SELECT count(*) FROM taken
""").format(**NAMES)
SPANS = {"h": "hour", "d": "day", "m": "month"}


def compact(unit: str, into: str, before: datetime, *, calm: int = sys.maxsize) -> int:
    """Compact crowded times of a unit, which begin before a moment; return how many rows it took.

    What is crowded is an hour, a day or a month, as `into` says, and its rows become rows of that:
    hours that have few kinds each can make a crowded day. The last one is first; after `calm` ones
    without a crowd no earlier one is looked at.

    Safe at any time, any number of times at once, and killed midway, as rolling_up.batches is: what
    a statement adds is what it has deleted, row by row. What it skips, as others have it locked,
    and what comes later, stays in its kinds.
    """
    taken = without = 0
    for since, until in times(unit, into, before):
        rows = sum(
            in_batches(partial(move, link, unit, into, since, until))
            for link in crowded(unit, since, until)
        )
        taken += rows
        without = 0 if rows else without + 1
        if without >= calm:
            break
    return taken


def times(unit: str, into: str, before: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield when each hour, day or month begins that has any rows, and ends; the last one first."""
    while True:
        with connection.cursor() as cursor:
            cursor.execute(LATEST, [SPANS[into], unit, before])
            (since,) = cursor.fetchone()
        if since is None:
            return
        yield since, before
        before = since


def crowded(unit: str, since: datetime, until: datetime) -> list[int]:
    """Return the ids of the links that have more than CROWDED kinds between two moments."""
    with connection.cursor() as cursor:
        cursor.execute(FIND, [unit, since, until, LOOKED_AT, CROWDED])
        return [link for (link,) in cursor.fetchall()]


def move(link: int, unit: str, into: str, since: datetime, until: datetime) -> int:
    """Move a batch of a link's rows to rows of one dimension each; return how many it took."""
    with connection.cursor() as cursor:
        cursor.execute(MOVE, [link, unit, since, until, BATCH, SPANS[into], into])
        return int(cursor.fetchone()[0])


def in_batches(batch: Callable[[], int]) -> int:
    """Move batch after batch until one is not full; return how many rows they took."""
    total = 0
    while True:
        taken = batch()
        total += taken
        if taken < BATCH:
            return total
