"""Programs that fail in real threads and in no schedule.

The result does not call them proven, or it names a limit.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from pginterleave import Outcome

from . import counter
from .counter import explored, parameters, sql

pytestmark = pytest.mark.usefixtures("tables")


@pytest.fixture
def tables(counter_table: None) -> Iterator[None]:
    sql(
        "CREATE TABLE interleave_item (v int);"
        "CREATE TABLE interleave_total (id int PRIMARY KEY, v int);"
        "CREATE TABLE interleave_child (id int PRIMARY KEY, n int,"
        " parent int REFERENCES interleave_counter ON DELETE CASCADE)"
    )
    yield
    sql("DROP TABLE interleave_item, interleave_total, interleave_child")


def setup() -> None:
    counter.setup()
    sql(
        "DELETE FROM interleave_item; DELETE FROM interleave_total;"
        "INSERT INTO interleave_total VALUES (1, 0), (2, 0);"
        "INSERT INTO interleave_child VALUES (1, 0, 1), (2, 0, 1)"
    )


ADD_UP = "UPDATE interleave_total SET v = (SELECT sum(v) FROM interleave_item) WHERE id = 1"
GAP = "what others commit between the snapshot of one statement and its locks: "


def insert_and_add_up() -> None:
    sql("INSERT INTO interleave_item VALUES (1)")
    sql(ADD_UP)


def added_up(outcomes: list[Outcome]) -> str:
    ((total, items),) = sql(
        "SELECT v, (SELECT sum(v) FROM interleave_item) FROM interleave_total WHERE id = 1"
    )
    return "" if total == items else f"total {total} of {items}"


def test_a_statement_that_reads_before_it_locks_is_named() -> None:
    found = explored(insert_and_add_up, insert_and_add_up, setup=setup, invariant=added_up)
    assert found.violating == 0
    assert found.limits == (GAP + "UPDATE interleave_total SET v = (SELECT sum(v) FROM interle…",)


@pytest.mark.parametrize(
    ("statement", "processes", "named"),
    [
        # With two processes, the other transaction is in progress at the snapshot or it is not.
        (ADD_UP, 2, False),
        (ADD_UP, 3, True),
        # One row, which does not depend on other rows.
        ("UPDATE interleave_total SET v = v + 1 WHERE id = 1", 3, False),
        ("UPDATE interleave_total SET v = v + 1 WHERE v = 0", 3, True),
        ("SELECT v FROM interleave_total WHERE v = 0 LIMIT 1 FOR UPDATE", 3, True),
        ("INSERT INTO interleave_total SELECT 3, 0 ON CONFLICT (id) DO NOTHING", 3, False),
    ],
)
def test_the_gap_is_named_only_if_it_matters(statement: str, processes: int, named: bool) -> None:
    def process() -> None:
        with transaction.atomic():
            sql("INSERT INTO interleave_item VALUES (1)")
            sql(statement)

    found = explored(*[process] * processes, setup=setup, reduce=True, max_schedules=10)
    assert any(each.startswith(GAP) for each in found.limits) is named


def both_tables(first: str, second: str) -> str:
    """Return a statement that changes a row of each table, in an order that PostgreSQL chooses."""
    return f"WITH one AS (UPDATE {first} WHERE id = 1) UPDATE {second} WHERE id = 1"


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [
        # In threads, 21 of 100 times a deadlock.
        (
            both_tables("interleave_total SET v = 1", "interleave_counter SET hits = 1"),
            both_tables("interleave_counter SET hits = 1", "interleave_total SET v = 1"),
            ["in which order one statement locks rows of interleave_counter and interleave_total"],
        ),
        # In threads, 23 of 80 times.
        (
            "DELETE FROM interleave_counter WHERE id = 1",
            "UPDATE interleave_child SET n = 1 WHERE id IN"
            " (SELECT id FROM interleave_child ORDER BY id DESC FOR UPDATE)",
            ["in which order one statement locks several rows of interleave_child"],
        ),
        (
            "DELETE FROM interleave_counter WHERE id = 1",
            "UPDATE interleave_child SET n = 1 WHERE id = 2",
            [],
        ),
        (
            both_tables("interleave_total SET v = 1", "interleave_counter SET hits = 1"),
            both_tables("interleave_total SET v = 1", "interleave_counter SET hits = 1"),
            [],
        ),
    ],
)
def test_a_deadlock_inside_two_statements_is_named(
    first: str, second: str, limits: list[str]
) -> None:
    found = explored(partial(sql, first), partial(sql, second), setup=setup)
    assert [*found.limits] == limits


def test_the_order_of_two_commits_after_one_step_is_chance() -> None:
    """Three processes insert one key, which is checked in the COMMIT: the order varies."""
    sql(
        "ALTER TABLE interleave_counter ADD CONSTRAINT once UNIQUE (hits) "
        "DEFERRABLE INITIALLY DEFERRED"
    )
    insert = "INSERT INTO interleave_counter VALUES (%s, %s, 9)"
    found = explored(
        *[partial(sql, insert, number, f"own {number}") for number in (3, 4, 5)],
        setup=partial(sql, "DELETE FROM interleave_counter"),
        reduce=True,
    )
    assert "which COMMIT of processes 2 and 3 was first, as one step let both go on" in (
        found.unexplored
    )
    with pytest.raises(AssertionError, match=r"Not proven: .* decides by chance"):
        found.assert_safe()


def test_a_safe_result_names_python_between_two_statements() -> None:
    line = "What Python does between two statements is not interleaved"
    assert line in str(explored(counter.hits, counter.hits))
    assert line not in str(explored(counter.hits, counter.hits, max_schedules=1))


def connected_elsewhere() -> Any:
    driver: Any = connection
    return driver.Database.connect(**parameters() | {"dbname": "postgres"})


@pytest.mark.parametrize("closes", [False, True])
def test_a_connection_that_was_opened_before_to_another_database(closes: bool) -> None:
    """As in a pool or a kept thread; the schedule closes it or not."""
    with closing(connected_elsewhere()) as other:

        def process() -> None:
            counter.hits()
            if not other.closed:
                other.cursor().execute("SELECT 1")
                other.rollback()
                if closes:
                    other.close()

        found = explored(process, counter.hits)
    assert len(found.unobserved) == 1, found.unobserved
    ended = "a session of another connection, which has ended"
    assert (found.unobserved[0] == ended) is closes
    assert not found.complete


def test_a_connection_that_is_not_used_is_no_limit() -> None:
    with closing(connected_elsewhere()):
        explored(counter.hits, counter.hits).assert_safe()
