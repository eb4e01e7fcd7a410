"""The compaction of visits: of times with many kinds, the dimensions are kept, and not the kinds.

A popular link has hundreds of kinds of visits in an hour, as many as referrers, browsers, systems,
devices and countries are combined. What is shown tells them apart by one dimension at a time. So
the rows of the kinds make room for rows that have the value of one dimension each, and ANY in the
others: far fewer, and none of the numbers that are shown changes. VisitCount says how both add up.

Of an hour that is some days old, hardly anybody asks more than how many visits it had. So such
hours keep the rows of one dimension, the device, and those of the other four become the day's.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import VisitCount
from shorturl.models.hit_counts import ANY, DIMENSIONS
from shorturl.strategies.rolling_up.batches import BATCH

# Kinds of a link in one time. Fewer are read as quickly as what they would become, which for very
# few kinds is more rows: five for one kind alone.
CROWDED = 50
# Rows of one look, some 2 to 4 s of the 10 that a statement has. A link that is followed so much is
# crowded in the first ones, too; one that is not found keeps its kinds.
LOOKED_AT = 1_000_000

NAMES = {
    "counts": sql.Identifier(VisitCount._meta.db_table),
    "dimensions": sql.SQL(", ".join(DIMENSIONS)),
    "any": sql.Literal(ANY),
}
KINDS = sql.SQL("{any} NOT IN ({dimensions})").format(**NAMES)  # rows that are not compacted
MORE = sql.SQL("(referrer <> {any} OR device = {any})").format(**NAMES)  # than a device
LATEST = sql.SQL("""
    SELECT date_trunc(%s, max(starts_at), 'UTC') FROM {counts} WHERE unit = %s AND starts_at < %s
""").format(**NAMES)
FIND = sql.SQL("""
    WITH looked_at AS (
        SELECT key, {dimensions}, is_bot FROM {counts}
        WHERE unit = %s AND starts_at >= %s AND starts_at < %s AND {kinds}
        LIMIT %s
    ), kinds AS (
        SELECT DISTINCT * FROM looked_at
    )
    SELECT key FROM kinds GROUP BY key HAVING count(*) > %s
""").format(**NAMES, kinds=KINDS)
FIND_DETAILED = sql.SQL("""
    WITH looked_at AS (
        SELECT key, referrer, device FROM {counts}
        WHERE unit = 'h' AND starts_at >= %s AND starts_at < %s
        LIMIT %s
    )
    SELECT key FROM looked_at WHERE {more} GROUP BY key HAVING count(*) > %s
""").format(**NAMES, more=MORE)
SUMS = sql.SQL("""
    WITH free AS MATERIALIZED (
        SELECT id FROM {counts}
        WHERE key = %s AND unit = %s AND starts_at >= %s AND starts_at < %s
            AND CASE WHEN %s THEN {more} ELSE {kinds} END
        LIMIT %s FOR UPDATE SKIP LOCKED
    ), taken AS (
        DELETE FROM {counts} AS counts USING free WHERE counts.key = %s AND counts.id = free.id
        RETURNING counts.*
    ), times AS (
        SELECT *, date_trunc(%s, starts_at, 'UTC') AS since,
            date_trunc(%s, starts_at, 'UTC') AS device_since
        FROM taken
    ), sums AS (
        SELECT key, coalesce(since, device_since) AS begins,
            CASE WHEN since IS NULL THEN %s ELSE %s END,
            coalesce(referrer, {any}) AS referrer, coalesce(browser, {any}) AS browser,
            coalesce(system, {any}) AS system, coalesce(device, {any}) AS device,
            coalesce(country, {any}) AS country, is_bot, sum(hits)::bigint
        FROM times
        GROUP BY key, is_bot, GROUPING SETS ((since, referrer), (since, browser),
            (since, system), (device_since, device), (since, country))
        HAVING coalesce({dimensions}) <> {any}
        ORDER BY key, begins, {dimensions}, is_bot
    )
""").format(**NAMES, kinds=KINDS, more=MORE)
ADDED = sql.SQL("""
    , added AS (
        INSERT INTO {counts} AS counts (key, starts_at, unit, {dimensions}, is_bot, hits)
        SELECT * FROM sums
        ON CONFLICT (key, starts_at, unit, {dimensions}, is_bot)
        DO UPDATE SET hits = counts.hits + excluded.hits
    )
    SELECT count(*) FROM taken
""").format(**NAMES)
MOVE = SUMS + ADDED
# The same in two statements, as a cluster takes no INSERT in a WITH.
TAKE = SUMS + sql.SQL("SELECT (SELECT count(*) FROM taken), sums.* FROM sums")
ADD = sql.SQL("""
    INSERT INTO {counts} AS counts (key, starts_at, unit, {dimensions}, is_bot, hits)
    VALUES {rows}
    ON CONFLICT (key, starts_at, unit, {dimensions}, is_bot)
    DO UPDATE SET hits = counts.hits + excluded.hits
""")
ROW = sql.SQL("(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)")
SPANS = {"h": "hour", "d": "day", "m": "month"}


def compact(unit: str, into: str, before: datetime, *, calm: int = sys.maxsize) -> int:
    """Compact crowded times of a unit, which begin before a moment; return how many rows it took.

    What is crowded is an hour, a day or a month, as `into` says, and its rows become rows of that:
    hours that have few kinds each can make a crowded day. The last one is first; after `calm` ones
    without a crowd no earlier one is looked at.

    Safe at any time, any number of times at once, and killed midway, as rolling_up.batches is. What
    it skips, as others have it locked, and what comes later, stays in its kinds.
    """
    return each_time(partial(crowded, FIND, unit), move, unit, into, before, calm)


def downsample(before: datetime, *, calm: int) -> int:
    """Move the rows of a day's hours to the day, except those of devices; return how many moved.

    Those are of links with more than CROWDED such rows in a day that is over at that moment. No
    range that is shown begins or ends within a day, so that no number in it changes. All else is as
    in compact().
    """
    return each_time(
        partial(crowded, FIND_DETAILED), partial(move, devices="h"), "h", "d", before, calm
    )


def each_time(
    find: Callable[[datetime, datetime], list[str]],
    move_batch: Callable[[str, str, str, datetime, datetime], int],
    unit: str,
    into: str,
    before: datetime,
    calm: int,
) -> int:
    taken = without = 0
    for since, until in times(unit, into, before):
        rows = sum(
            in_batches(partial(move_batch, key, unit, into, since, until))
            for key in find(since, until)
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


def crowded(statement: Any, *during: Any) -> list[str]:
    """Return the keys of the links that have more than CROWDED rows for the statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, [*during, LOOKED_AT, CROWDED])
        return [key for (key,) in cursor.fetchall()]


def move(
    key: str, unit: str, into: str, since: datetime, until: datetime, devices: str = ""
) -> int:
    """Move a batch of a link's rows to rows of one dimension each; return how many it took.

    Without `devices` they are those that are not compacted; with it, the unit that the devices have
    already or are to have, all that are not those of a device alone.
    """
    spans = [SPANS[into], SPANS[devices or into], devices or into, into]
    values: list[Any] = [key, unit, since, until, bool(devices), BATCH, key, *spans]
    if settings.SHORTURL_ROLLING_UP != "by_key":
        with connection.cursor() as cursor:
            cursor.execute(MOVE, values)
            return int(cursor.fetchone()[0])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TAKE, values)
        if not (found := cursor.fetchall()):
            return 0
        rows = sql.SQL(", ").join([ROW] * len(found))
        values = [value for _, *sums in found for value in sums]
        cursor.execute(ADD.format(**NAMES, rows=rows), values)
    return int(found[0][0])


def in_batches(batch: Callable[[], int]) -> int:
    total = 0
    while True:
        taken = batch()
        total += taken
        if taken < BATCH:
            return total
