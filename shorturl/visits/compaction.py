"""The compaction of visits: a crowded period keeps its dimensions instead of its kinds.

A popular link has hundreds of kinds of visits in an hour: each combination of referrer, browser,
system, device and country. The statistics show one dimension at a time. So compact() replaces the
rows of the kinds by fewer rows, each with the value of one dimension and ANY in the others. No
number that is shown changes. VisitCount says how both sorts of rows add up.

Of an hour some days ago, usually only the number of visits is wanted. So downsample() keeps the
hour's rows of one dimension, the device, and moves those of the other four to the day.
"""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl import cluster
from shorturl.models import VisitCount
from shorturl.models.hit_counts import ANY, DIMENSIONS
from shorturl.strategies.rolling_up.batches import BATCH

# A link is crowded in a period with more kinds than this. Fewer kinds are read as quickly as the
# rows that replace them; one kind alone would become five rows.
CROWDED = 50
# Rows that one search reads: some 2 to 4 s of the 10 s of statement_timeout. In a period with more
# rows, a crowded link is crowded in the first rows, too. A link that is not found keeps its kinds.
LOOKED_AT = 1_000_000

NAMES = {
    "counts": sql.Identifier(VisitCount._meta.db_table),
    "dimensions": sql.SQL(", ".join(DIMENSIONS)),
    "any": sql.Literal(ANY),
}
KINDS = sql.SQL("{any} NOT IN ({dimensions})").format(**NAMES)  # rows that are not compacted
MORE = sql.SQL("(referrer <> {any} OR device = {any})").format(**NAMES)  # more than a device
LATEST = sql.SQL("""
    SELECT date_trunc(%s, max(starts_at), 'UTC') FROM {table} WHERE unit = %s AND starts_at < %s
""")
FIND = sql.SQL("""
    WITH looked_at AS (
        SELECT key, {dimensions}, is_bot FROM {table}
        WHERE unit = %s AND starts_at >= %s AND starts_at < %s AND {kinds}
        LIMIT %s
    ), kinds AS (
        SELECT DISTINCT * FROM looked_at
    )
    SELECT key FROM kinds GROUP BY key HAVING count(*) > %s
""")
FIND_DETAILED = sql.SQL("""
    WITH looked_at AS (
        SELECT key, referrer, device FROM {table}
        WHERE unit = 'h' AND starts_at >= %s AND starts_at < %s
        LIMIT %s
    )
    SELECT key FROM looked_at WHERE {more} GROUP BY key HAVING count(*) > %s
""")
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
ADD = sql.SQL("""
    INSERT INTO {counts} AS counts (key, starts_at, unit, {dimensions}, is_bot, hits)
    {rows}
    ON CONFLICT (key, starts_at, unit, {dimensions}, is_bot)
    DO UPDATE SET hits = counts.hits + excluded.hits
""")
MOVE = SUMS + sql.SQL(", added AS ({add}) SELECT count(*) FROM taken").format(
    add=ADD.format(**NAMES, rows=sql.SQL("SELECT * FROM sums"))
)
# The same in two statements, because a cluster refuses an INSERT in a WITH.
TAKE = SUMS + sql.SQL("SELECT (SELECT count(*) FROM taken), sums.* FROM sums")
ROW = sql.SQL("(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)")
SPANS = {"h": "hour", "d": "day", "m": "month"}


def compact(unit: str, into: str, before: datetime, *, calm: int = sys.maxsize) -> int:
    """Compact the rows of a unit in crowded periods before a time; return how many rows it took.

    `into` is the unit of the periods, and of the new rows: hours with few kinds each can make a
    crowded day. The latest period is first. The search ends after `calm` periods without a crowd.

    Safe at any time, several times at once, and when killed midway, as rolling_up.batches is. Rows
    that other transactions have locked, and visits that are recorded later, keep their kinds.
    """
    return each_time(partial(crowded, FIND, unit), move, unit, into, before, calm)


def downsample(before: datetime, *, calm: int) -> int:
    """Move the rows of a day's hours to the day, except those of the device; return how many moved.

    It does so for links with more than CROWDED such rows in a day before `before`. No range that is
    shown begins or ends within a day, so none of its numbers changes. The rest is as in compact().
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
    """Yield the begin and the end of each period with rows of the unit, the latest first."""
    while True:
        ((since,),) = cluster.search(LATEST, [SPANS[into], unit, before])
        if since is None:
            return
        yield since, before
        before = since


def crowded(statement: Any, *during: Any) -> list[str]:
    """Return the keys of links with more than CROWDED kinds or rows, by FIND or FIND_DETAILED."""
    names = {**NAMES, "kinds": KINDS, "more": MORE}
    found = cluster.search(statement, [*during, LOOKED_AT, CROWDED], **names)
    return [key for (key,) in found]


def move(
    key: str, unit: str, into: str, since: datetime, until: datetime, devices: str = ""
) -> int:
    """Move a batch of a link's rows to rows of one dimension each; return how many it took.

    Without `devices` it moves the rows that are not compacted. With `devices`, the unit that the
    rows of the device keep, it moves all rows except those of the device alone.
    """
    spans = [SPANS[into], SPANS[devices or into], devices or into, into]
    values: list[Any] = [key, unit, since, until, bool(devices), BATCH, key, *spans]
    if not settings.DATABASE_CITUS:
        with connection.cursor() as cursor:
            cursor.execute(MOVE, values)
            return int(cursor.fetchone()[0])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TAKE, values)
        if not (found := cursor.fetchall()):
            return 0
        rows = sql.SQL("VALUES ") + sql.SQL(", ").join([ROW] * len(found))
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
