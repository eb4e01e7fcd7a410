"""The roll-up of visits on a Citus cluster: shard by shard, connected to the node of the shard.

No statement may change rows of several shards, and Citus takes a WITH that inserts apart. So each
transaction has the keys of one shard, and adds what it has deleted by further statements. A shard's
own table is only searched: a row that is written there would be lost if the shard moves.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.psycopg_any import sql
from django.db.backends.utils import CursorWrapper

from shorturl.models import MAX_VALUES, OTHER, DailyVisits, Dimension, HourlyVisits, RecentVisits

MAX_KEYS = 100  # in one transaction
MAX_ROWS = 1_000  # of each table
TABLES = [model._meta.db_table for model in (RecentVisits, HourlyVisits, DailyVisits)]
NAMES: dict[str, Any] = dict(
    zip(("recent", "hours", "days"), map(sql.Identifier, TABLES), strict=True)
)
# Another roll-up of the shard waits in vain. The lock is one of this node.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('roll up visits', %s))"
FIND_KEYS = sql.SQL("""
    SELECT key FROM {recent_shard}
    UNION SELECT key FROM {hours_shard} WHERE hour < %(hourly_since)s
    UNION SELECT key FROM {days_shard} WHERE day < %(daily_since)s AND extract(day FROM day) <> 1
    LIMIT %(max_keys)s
""")
# A statement with one key would do, too; `key IN` of one shard is planned for its node.
TAKE_RECENT = sql.SQL("""
    DELETE FROM {recent} WHERE key IN %(keys)s AND id IN (
        SELECT id FROM {recent} WHERE key IN %(keys)s ORDER BY id LIMIT %(max_rows)s
    ) RETURNING key, starts_at, kinds
""").format(**NAMES)
TAKE_DAYS = sql.SQL("""
    DELETE FROM {days} WHERE key IN %(keys)s AND id IN (
        SELECT id FROM {days} WHERE key IN %(keys)s AND day < %(daily_since)s
            AND extract(day FROM day) <> 1
        ORDER BY day LIMIT %(max_rows)s
    ) RETURNING key, dimension, day, value, people, bots
""").format(**NAMES)
DELETE_HOURS = sql.SQL(
    "DELETE FROM {hours} WHERE key IN %(keys)s AND hour < %(hourly_since)s"
).format(**NAMES)
READ_VALUES = sql.SQL("""
    SELECT key, dimension, day, value FROM {days} WHERE key IN %(keys)s AND day IN %(days)s
""").format(**NAMES)
ADD_TO_HOURS = sql.SQL("""
    INSERT INTO {hours} AS counts (key, hour, people, bots) VALUES {rows}
    ON CONFLICT (key, hour) DO UPDATE
    SET people = counts.people + excluded.people, bots = counts.bots + excluded.bots
""")
ADD_TO_DAYS = sql.SQL("""
    INSERT INTO {days} AS counts (key, dimension, day, value, people, bots) VALUES {rows}
    ON CONFLICT (key, dimension, day, value) DO UPDATE
    SET people = counts.people + excluded.people, bots = counts.bots + excluded.bots
""")


class Day(NamedTuple):
    """A day of a dimension of a link; a month is its first day."""

    key: str
    dimension: str
    day: date


Sums = dict[Any, Counter[str]]  # how many people and bots


def roll_up_shard(
    database: BaseDatabaseWrapper,
    shards: Sequence[int],
    *,
    hourly_since: datetime,
    daily_since: date,
) -> int:
    """Move the due rows of a shard; return how many rows were taken.

    `database` leads to the node of the shard. `shards` are the ids of one shard in TABLES.
    """
    names = {
        f"{name}_shard": sql.Identifier(f"{table}_{shard}")
        for name, table, shard in zip(NAMES, TABLES, shards, strict=True)
    }
    due: dict[str, Any] = {
        "hourly_since": hourly_since,
        "daily_since": daily_since,
        "max_rows": MAX_ROWS,
    }
    total = 0
    with database.cursor() as cursor:
        while True:
            cursor.execute(FIND_KEYS.format(**names), {**due, "max_keys": MAX_KEYS})
            keys = tuple(sorted(key for (key,) in cursor.fetchall()))
            if not keys:
                return total
            # pginterleave: alone - the tests on a cluster roll up in several processes
            cursor.execute("BEGIN")
            cursor.execute(TRY_LOCK, [shards[0]])
            taken = move(cursor, due | {"keys": keys}) if cursor.fetchone()[0] else 0
            cursor.execute("COMMIT")
            if not taken:
                return total  # another roll-up is at work
            total += taken


def move(cursor: CursorWrapper, values: dict[str, Any]) -> int:
    """Move rows of the keys of one shard in an open transaction; return how many were taken."""
    hours: Sums = {}
    days: dict[Day, Sums] = {}
    cursor.execute(TAKE_RECENT, values)
    recent = cursor.fetchall()
    for key, starts_at, visits in recent:
        day = first_of_month(starts_at.date(), values["daily_since"])
        for *by_dimension, is_bot in json.loads(visits):
            who = "bots" if is_bot else "people"
            if starts_at >= values["hourly_since"]:
                add(hours, (key, starts_at), {who: 1})
            for dimension, value in zip(Dimension.values, by_dimension, strict=True):
                add(days.setdefault(Day(key, dimension, day), {}), value, {who: 1})
    cursor.execute(TAKE_DAYS, values)
    old_days = cursor.fetchall()
    for key, dimension, day, value, people, bots in old_days:
        month = Day(key, dimension, day.replace(day=1))
        add(days.setdefault(month, {}), value, {"people": people, "bots": bots})
    cursor.execute(DELETE_HOURS, values)
    old_hours = cursor.rowcount
    if days:
        limit_values(cursor, days, values["keys"])
    insert(cursor, ADD_TO_HOURS, ([*hour, *counts(hours[hour])] for hour in sorted(hours)))
    insert(
        cursor,
        ADD_TO_DAYS,
        ([*day, value, *counts(days[day][value])] for day in sorted(days) for value in days[day]),
    )
    return len(recent) + len(old_days) + int(old_hours)


def first_of_month(day: date, daily_since: date) -> date:
    """Return the day under which visits are kept: its month's first day if it is old."""
    return day.replace(day=1) if day < daily_since else day


def add(sums: Sums, name: Any, numbers: dict[str, int]) -> None:
    sums.setdefault(name, Counter()).update(numbers)


def counts(sums: Counter[str]) -> tuple[int, int]:
    return sums["people"], sums["bots"]


def limit_values(cursor: CursorWrapper, days: dict[Day, Sums], keys: Sequence[str]) -> None:
    """Give each day at most MAX_VALUES values with those in the table; the rest is OTHER."""
    stored: dict[Day, set[str]] = {}
    values: dict[str, Any] = {"keys": keys, "days": tuple({day.day for day in days})}
    cursor.execute(READ_VALUES, values)
    for key, dimension, day, value in cursor.fetchall():
        stored.setdefault(Day(key, dimension, day), set()).add(value)
    for day, sums in days.items():
        known = stored.get(day, set())
        new = sorted(set(sums) - known, key=lambda value: (-sums[value].total(), value))
        for value in new[max(MAX_VALUES - 1 - len(known), 0) :]:
            if value != OTHER:
                add(sums, OTHER, sums.pop(value))


def insert(cursor: CursorWrapper, statement: Any, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows of one shard, if there are any."""
    every = list(rows)
    if every:
        place = sql.SQL("({})").format(sql.SQL(", ").join([sql.Placeholder()] * len(every[0])))
        places = sql.SQL(", ").join([place] * len(every))
        cursor.execute(
            statement.format(**NAMES, rows=places), [value for row in every for value in row]
        )
