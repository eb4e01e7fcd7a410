"""Statements that take several locks: the result names the order, or explores the deadlock.

In how many of how many tries each broke in threads stands beside it.
"""

import itertools
from functools import partial
from io import StringIO

import pytest
from django.db import OperationalError, connection, transaction

from . import counter
from .counter import Counter, Process, explore_all, sql, transact

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE lock_range (r int4range, EXCLUDE USING gist (r WITH &&));
    CREATE TABLE lock_later (n int UNIQUE DEFERRABLE INITIALLY IMMEDIATE);
    CREATE TABLE lock_parent (id int PRIMARY KEY, n int);
    CREATE TABLE lock_child (id serial PRIMARY KEY, n int,
        parent int REFERENCES lock_parent ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE lock_key (n int PRIMARY KEY);
    CREATE TABLE "lock order" (n int);
    CREATE VIEW lock_view AS
        SELECT lock_key.n FROM lock_key JOIN interleave_counter ON n = interleave_counter.id;
    CREATE TABLE lock_whole (n int) PARTITION BY LIST (n);
    CREATE TABLE lock_part1 PARTITION OF lock_whole FOR VALUES IN (1);
    CREATE TABLE lock_part2 PARTITION OF lock_whole FOR VALUES IN (2)
"""


def setup() -> None:
    counter.setup()
    sql("DELETE FROM lock_range; DELETE FROM lock_later")
    sql('DELETE FROM "lock order"; INSERT INTO "lock order" VALUES (1), (2)')
    sql("DELETE FROM lock_key; INSERT INTO lock_key VALUES (5)")
    sql("DELETE FROM lock_parent; INSERT INTO lock_parent VALUES (1), (9)")
    sql("INSERT INTO lock_child (parent) VALUES (1), (1)")


def find_limits(*processes: Process) -> tuple[str, ...]:
    return explore_all(*processes, setup=setup).limits


ADVISORY = "SELECT pg_advisory_xact_lock(g) FROM generate_series({}) AS g"
CHECKED_AFTER = "which of two statements is first in {}, whose constraint is checked after"
SEVERAL_ROWS = "in which order one statement locks several rows of {}"
SEVERAL_ADVISORY = "in which order one statement locks several advisory locks"
TWO_TABLES = "in which order one statement locks rows of {} and {}"
EVERY_ROW = "UPDATE interleave_counter SET hits = hits + 1"
# Each changes a row of both tables, in an order that PostgreSQL chooses.
KEY_AND_COUNTER, COUNTER_AND_KEY = (
    f"WITH one AS (UPDATE {first}) UPDATE {second}"
    for first, second in itertools.permutations(
        ["lock_key SET n = 5 WHERE n = 5", "interleave_counter SET hits = 1 WHERE id = 1"]
    )
)


@pytest.mark.parametrize(
    ("one", "two", "limit"),
    [
        (  # 92 of 10,059
            "INSERT INTO lock_range VALUES ('[1,5)')",
            "INSERT INTO lock_range VALUES ('[3,9)')",
            CHECKED_AFTER.format("lock_range"),
        ),
        (
            "INSERT INTO lock_later VALUES (1)",
            "INSERT INTO lock_later VALUES (1)",
            CHECKED_AFTER.format("lock_later"),
        ),
        (EVERY_ROW, EVERY_ROW, SEVERAL_ROWS.format("interleave_counter")),
        (EVERY_ROW, f"{EVERY_ROW} WHERE id = 1", ""),
        (  # 65 of 90
            "UPDATE lock_parent SET id = 2 WHERE id = 1",
            "SELECT 1 FROM lock_child WHERE parent = 1 ORDER BY id DESC FOR UPDATE",
            SEVERAL_ROWS.format("lock_child"),
        ),
        (  # 23 of 80
            "DELETE FROM lock_parent WHERE id = 1",
            "UPDATE lock_child SET n = 1 WHERE id IN"
            " (SELECT id FROM lock_child ORDER BY id DESC FOR UPDATE)",
            SEVERAL_ROWS.format("lock_child"),
        ),
        ("DELETE FROM lock_parent WHERE id = 1", "UPDATE lock_child SET n = 1 WHERE id = 2", ""),
        # 21 of 100
        (
            KEY_AND_COUNTER,
            COUNTER_AND_KEY,
            TWO_TABLES.format("interleave_counter", "lock_key"),
        ),
        (KEY_AND_COUNTER, KEY_AND_COUNTER, ""),
        # 22 of 216, with 40 tables
        (
            "LOCK TABLE lock_key, lock_range",
            "LOCK TABLE lock_range, lock_key",
            TWO_TABLES.format("lock_key", "lock_range"),
        ),
        (
            "LOCK TABLE lock_view",
            "LOCK TABLE interleave_counter, lock_key",
            TWO_TABLES.format("interleave_counter", "lock_key"),
        ),
        (
            "LOCK TABLE lock_whole",
            "LOCK TABLE lock_part2, lock_part1",
            TWO_TABLES.format("lock_part1", "lock_part2"),
        ),
        (  # 10 of 200
            "TRUNCATE lock_key, lock_child",
            "TRUNCATE lock_child, lock_key",
            TWO_TABLES.format("lock_child", "lock_key"),
        ),
        (
            "TRUNCATE lock_parent CASCADE",
            "DELETE FROM lock_child",
            SEVERAL_ROWS.format("lock_child"),
        ),
        ("LOCK TABLE lock_key", "TRUNCATE lock_key", ""),
        *[
            (
                f"SELECT 1 FROM {one} WHERE c.id = n - 4 FOR UPDATE",
                f"SELECT 1 FROM {two} WHERE c.id = n - 4 FOR UPDATE",
                TWO_TABLES.format("interleave_counter", "lock_key"),
            )
            for one, two in [
                ("interleave_counter c, lock_key", "lock_key, ONLY (interleave_counter) c"),
                (
                    "(public.interleave_counter c CROSS JOIN lock_key)",
                    "(lock_key CROSS JOIN public.interleave_counter c)",
                ),
            ]
        ],
        *[
            (f"UPDATE {table} SET n = 1", f"DELETE FROM {table}", SEVERAL_ROWS.format(name))
            for table, name in [
                ('"lock order"', "lock order"),
                ("public.lock_child", "lock_child"),
                ("ONLY (lock_child)", "lock_child"),
            ]
        ],
        # 11 of 193
        (ADVISORY.format("1, 4"), ADVISORY.format("4, 1, -1"), SEVERAL_ADVISORY),
        (
            "SELECT count(*) FROM (SELECT pg_advisory_lock(n) FROM lock_key) AS taken",
            ADVISORY.format("4, 1, -1"),
            SEVERAL_ADVISORY,
        ),
        (
            "SELECT pg_advisory_xact_lock(1), pg_advisory_xact_lock(2)",
            "SELECT pg_advisory_xact_lock(2), pg_advisory_xact_lock(1)",
            SEVERAL_ADVISORY,
        ),
        (
            'SELECT array_agg("pg_advisory_xact_lock"(id)::text) FROM interleave_counter',
            "SELECT 1 FROM interleave_counter WHERE pg_advisory_xact_lock(3 - id)::text = 'x'",
            SEVERAL_ADVISORY,
        ),
    ],
)
def test_a_statement_that_takes_several_locks_is_named(one: str, two: str, limit: str) -> None:
    found = find_limits(transact(one), transact(two))
    assert [each[: len(limit)] for each in found] == ([limit] if limit else []), found


def test_one_lock_a_statement_is_no_limit() -> None:
    locks = transact("SELECT pg_advisory_xact_lock(1)", "INSERT INTO lock_key VALUES (1)")
    assert not find_limits(locks, locks)


def test_rows_that_another_statement_locks_in_the_order_of_their_places_are_named() -> None:
    """That differs from database to database, unless ORDER BY decides."""

    @transaction.atomic
    def adds(*keys: str) -> None:
        for key in keys:
            row = Counter.objects.select_for_update().get(key=key)
            row.hits += 1
            row.save()

    limit = SEVERAL_ROWS.format("interleave_counter")
    found = explore_all(partial(adds, "a", "b"), transact(EVERY_ROW), setup=setup)
    assert limit in found.limits
    assert f". Not checked: {limit}." in str(found)
    assert limit not in find_limits(partial(adds, "a"), transact(EVERY_ROW))
    in_order = transact("SELECT 1 FROM interleave_counter ORDER BY id FOR UPDATE")
    assert limit not in find_limits(partial(adds, "a", "b"), in_order)


def test_copy_is_named() -> None:
    """4 of 197, with 40 keys."""

    @transaction.atomic
    def copies(text: str) -> None:
        with connection.cursor() as cursor:
            if hasattr(cursor.cursor, "copy_expert"):
                cursor.copy_expert("COPY lock_key FROM STDIN", StringIO(text))
            else:
                with cursor.copy("COPY lock_key FROM STDIN") as copy:
                    copy.write(text)

    found = find_limits(partial(copies, "1\n2\n"), partial(copies, "2\n1\n"))
    assert SEVERAL_ROWS.format("lock_key") in found


@pytest.mark.parametrize(
    "statements",
    [
        ("LOCK TABLE lock_key IN SHARE MODE", "INSERT INTO lock_key VALUES ({})"),
        ("SELECT count(*) FROM lock_key", "ALTER TABLE lock_key ADD COLUMN IF NOT EXISTS c{} int"),
    ],
)
def test_who_closes_the_cycle_by_an_upgrade_is_refused(statements: tuple[str, ...]) -> None:
    """PostgreSQL refuses it at once: no other process can be the victim."""
    one, two = (transact(*(each.format(number) for each in statements)) for number in (1, 2))
    found = explore_all(one, two, setup=setup, expected=())
    assert found.complete
    assert found.raising == found.violating > 0
    assert not any(letter in order for order in found.orders for letter in "ab")
    for schedule in found.violations:
        assert {type(each.raised) for each in schedule.outcomes} == {type(None), OperationalError}


def test_beside_an_upgrade_of_a_lock_each_of_another_deadlock_may_be_the_victim() -> None:
    one, two = (
        transact(
            *[f"SELECT 1 FROM interleave_counter WHERE id = {row} FOR UPDATE" for row in rows],
            "LOCK TABLE lock_key IN SHARE MODE",
        )
        for rows in ((1, 2), (2, 1))
    )
    found = explore_all(one, two, setup=setup)
    assert found.complete
    assert any("a" in order for order in found.orders)
