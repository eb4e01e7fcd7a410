"""One of the schedules that differ only in the order of independent steps runs; all count."""

import contextlib
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from pginterleave import Options, Outcome, explore

from . import counter
from .counter import Process, explore_all, explore_both, sql, transact

pytestmark = pytest.mark.usefixtures("tables")

TABLES = "CREATE TABLE interleave_other (id int PRIMARY KEY, n int)"


def some_violate(*processes: Process, **options: Any) -> None:
    every, _ = explore_both(*processes, **options)
    assert 0 < every.violating < every.schedules


def skip() -> int:
    """Update row `a` unless it is locked; return the number of updated rows."""
    unlocked = "SELECT id FROM interleave_counter WHERE key = 'a' FOR UPDATE SKIP LOCKED"
    update = f"UPDATE interleave_counter SET hits = 7 WHERE id = ({unlocked}) RETURNING id"
    with transaction.atomic():
        return len(sql(update))


def was_locked(outcomes: list[Outcome]) -> str:
    return "the row was locked" if any(each.returned == 0 for each in outcomes) else ""


def second_sees(outcomes: list[Outcome]) -> str:
    return str(outcomes[1].returned or "")


def test_the_order_of_independent_reads_is_explored_once() -> None:
    _, reduced = explore_both(counter.naive, counter.naive, invariant=counter.expect_hits(2))
    # The two reads of 112122 and 122211 are independent. The two writes are not.
    assert reduced.orders == ("111222", "222111", "112122", "122211")


COMPARED = "that a time passes with which a statement compares the clock"


@pytest.mark.parametrize(
    ("clock", "runs", "limits"),
    [
        ("clock_timestamp()", 4, (COMPARED,)),
        ("clock_timestamp() - interval '1 s'", 14, ()),  # which depend on each other
    ],
)
def test_reads_that_compare_with_the_clock_are_independent(
    clock: str, runs: int, limits: tuple[str, ...]
) -> None:
    read = f"SELECT hits FROM interleave_counter WHERE id = 1 AND '2000-01-01' < {clock}"

    def process() -> None:
        ((hits,),) = sql(read)
        sql("UPDATE interleave_counter SET hits = %s WHERE key = 'a'", hits + 1)

    _, reduced = explore_both(process, process, invariant=counter.expect_hits(2))
    assert (len(reduced.orders), reduced.limits) == (runs, limits)


ADD = "UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'"


@pytest.mark.parametrize(
    "texts",
    [
        # These fail, which their text does not show.
        (ADD, "INSERT INTO interleave_counter VALUES (2, 'c', 0)"),
        (ADD, "SELECT id / hits FROM interleave_counter WHERE key = 'b'"),
        (ADD, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),  # too late here
        (ADD, "RELEASE SAVEPOINT x"),  # which does not exist
        ("SAVEPOINT a", ADD, "ROLLBACK TO a", "SELECT pg_advisory_xact_lock(1)"),
        (f"{ADD}; SAVEPOINT a", "SELECT 1 / 0"),
    ],
)
def test_what_releases_locks_before_the_transaction_ends(texts: tuple[str, ...]) -> None:
    some_violate(transact(*texts), skip, invariant=was_locked)
    some_violate(skip, transact(*texts), invariant=was_locked)
    explore_both(transact(*texts), counter.hits, counter.update_returning, invariant=second_sees)


@pytest.mark.parametrize(
    "process",
    [
        partial(sql, f"{ADD}; SELECT 1"),
        transact(f"{ADD}; COMMIT"),
        transact(f"SAVEPOINT a; {ADD}"),
    ],
)
def test_several_statements_at_once_are_one_step(process: Process) -> None:
    some_violate(process, counter.hits, invariant=second_sees)


def test_savepoints_are_independent() -> None:
    def process(row: int) -> None:
        with transaction.atomic(), transaction.atomic():
            write(row)

    _, reduced = explore_both(partial(process, 1), partial(process, 2))
    assert (reduced.schedules, len(reduced.orders)) == (70, 1)


def test_a_savepoint_after_an_error_is_reduced() -> None:
    def insert(key: str) -> str:
        with transaction.atomic():
            for each in (key, f"{key}{key}"):
                try:
                    with transaction.atomic():
                        sql("INSERT INTO interleave_counter VALUES (3, %s, 0)", each)
                        return each
                except DatabaseError:
                    sql("SELECT count(*) FROM interleave_counter")
        return ""

    def invariant(outcomes: list[Outcome]) -> str:
        return "" if outcomes[0].returned else "the first has nothing"

    every, reduced = explore_both(partial(insert, "x"), partial(insert, "y"), invariant=invariant)
    assert len(reduced.orders) < len(every.orders)
    assert every.violations


def test_an_error_of_the_driver_releases_nothing() -> None:
    def fail() -> None:
        with transaction.atomic():
            with contextlib.suppress(ValueError), transaction.atomic():
                counter.f_expression()
                sql("SELECT id FROM interleave_counter WHERE key = %s", "\0")
            sql("SELECT pg_advisory_xact_lock(1)")

    explore_both(fail, skip, invariant=was_locked)


def test_a_transaction_that_begins_serializable() -> None:
    """The order of reads may decide which process PostgreSQL refuses, so every order runs."""

    def process() -> None:
        sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
        counter.hits()
        sql("COMMIT")

    every, reduced = explore_both(process, process)
    assert reduced.orders == every.orders


@pytest.mark.parametrize(
    ("level", "runs"),
    [
        # UPDATE and COMMIT of both have 6 orders. In the two in which one commits before the
        # other's UPDATE, it can do so before or after the other's SELECT.
        ("REPEATABLE READ", 8),
        # The order of reads, but not of SET, decides which process PostgreSQL refuses.
        ("SERIALIZABLE", 20),
    ],
)
def test_setting_the_isolation_level_is_independent(level: str, runs: int) -> None:
    def process(read: str, write: str) -> None:
        with transaction.atomic():
            sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
            hits = counter.hits(read)
            sql("UPDATE interleave_counter SET hits = %s WHERE key = %s", hits + 1, write)

    def skewed(outcomes: list[Outcome]) -> str:
        values = sql("SELECT hits FROM interleave_counter ORDER BY key")
        return "" if {(1,), (2,)} == set(values) else f"{values}"

    every, reduced = explore_both(
        partial(process, *"ab"), partial(process, *"ba"), invariant=skewed
    )
    assert (every.schedules, len(reduced.orders)) == (70, runs)
    assert 0 < every.violating < every.schedules


@pytest.mark.parametrize("level", ["", "repeatable read"])
def test_an_update_of_a_changed_row_does_not_wait_for_the_next_change(level: str) -> None:
    """Above READ COMMITTED it fails at once, though another process has locked the row since."""

    def refused() -> None:
        with transaction.atomic():
            if not level:
                sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            counter.naive()

    def locks() -> None:
        with transaction.atomic():
            sql("SELECT id FROM interleave_counter WHERE id = 1 FOR UPDATE")

    processes = (refused, locks, counter.update_returning)
    explore_both(*processes, isolation_level=level)


def test_a_select_of_nextval_is_a_write() -> None:
    sql("CREATE SEQUENCE interleave_sequence OWNED BY interleave_counter.hits")  # dropped with it
    found = explore_all(
        *[partial(sql, "SELECT nextval('interleave_sequence')")] * 2,
        invariant=lambda each: "" if each[0].returned < each[1].returned else "later",
        reduce=True,
    )
    assert (found.violating, found.schedules, len(found.orders)) == (1, 2, 2)


def setup() -> None:
    counter.setup()
    sql("INSERT INTO interleave_counter VALUES (3, 'c', 0)")
    sql("DELETE FROM interleave_other")
    sql("INSERT INTO interleave_other VALUES (1, 0)")


def read_twice(row: int) -> Process:
    return transact(*[f"SELECT hits FROM interleave_counter WHERE id = {row}"] * 2)


def write(row: int, table: str = "interleave_counter", column: str = "hits") -> None:
    sql(f"UPDATE {table} SET {column} = {column} + 1 WHERE id = %s", row)


def read_and_write(row: int) -> None:
    sql("SELECT hits FROM interleave_counter WHERE id = %s", row)
    write(row)


def insert(row: int) -> None:
    sql("INSERT INTO interleave_counter VALUES (%s, %s, 0)", row, str(row))


other = partial(write, 1, "interleave_other", "n")


def test_a_statement_reads_what_table_names() -> None:
    update = (
        "UPDATE interleave_counter SET hits = 7 WHERE id = 1 AND (2, 0) IN (TABLE interleave_other)"
    )
    adds = transact("INSERT INTO interleave_other VALUES (2, 0)")
    updates = transact(update)
    some_violate(adds, updates, setup=setup, invariant=counter.expect_hits(7))


BY_HAND = [
    # The process that locks the row first goes first: 3!.
    ([counter.select_for_update] * 3, 6, 72),
    ([counter.select_for_update] * 2, 2, 6),
    # Each has its own row, or table: 6! / 2!**3, and 9! / 3!**3.
    ([partial(write, row) for row in (1, 2, 3)], 1, 90),
    ([partial(read_and_write, row) for row in (1, 2, 3)], 1, 1680),
    ([partial(write, 1), other], 1, 6),
    # Of those that write the same row, the order: 2 * 1 * 1.
    ([partial(write, 1), partial(write, 1), other], 2, 60),
    # The second in order reads before or after the first COMMIT, the third at one of 3 places.
    ([partial(read_and_write, 1)] * 2, 4, 14),
    ([partial(read_and_write, 1)] * 3, 3 * 2 * 2 * 3, 636),
    # Reads are before, between or after: the COMMIT of a read has no place.
    ([read_twice(1), partial(write, 1)], 3, 10),
    ([read_twice(2), partial(write, 1)], 1, 10),
    # An INSERT may meet any row of its table: INSERT and COMMIT of both, in each order.
    ([partial(insert, 4), partial(write, 1)], 6, 6),
    ([partial(insert, 4), other], 1, 6),
]


@pytest.mark.parametrize(("processes", "traces", "schedules"), BY_HAND)
def test_the_number_of_runs_is_the_one_counted_by_hand(
    processes: list[Process], traces: int, schedules: int
) -> None:
    ran = []

    def note_and_set_up() -> None:
        ran.append(True)
        setup()

    found = explore_all(*processes, setup=note_and_set_up, reduce=True)
    assert (len(found.orders), found.schedules, found.truncated) == (traces, schedules, "")
    assert len(ran) <= traces + 1  # one run may lead to a known state


def test_a_wait_for_a_key_runs() -> None:
    """Of three that insert it, 3! orders would do."""
    insert = "INSERT INTO interleave_counter VALUES (4, 'd', 0) ON CONFLICT DO NOTHING"
    found = explore_all(*[partial(sql, insert)] * 3, setup=setup, reduce=True)
    assert (found.schedules, len(found.orders)) == (48, 48)


def test_a_row_that_was_waited_for_stays_locked() -> None:
    """2 and 3 wait for 1. Then no row meets their condition, but 3 waits for 2's COMMIT."""
    guard = partial(sql, "UPDATE interleave_counter SET hits = 3 WHERE id = 1 AND hits < 2")
    every, _ = explore_both(guard, guard, guard, setup=setup)
    assert (every.schedules, every.violating) == (42, 0)


def test_it_is_on_by_default() -> None:
    """Two processes that write different rows: one schedule runs, and all are counted."""
    processes = [partial(write, 1), partial(write, 2)]
    race: dict[str, Any] = {"setup": counter.setup, "invariant": counter.anything}
    found = explore(processes, **race)
    assert (len(found.orders), found.schedules) == (1, 6)
    assert "1 ran; the others are equivalent, if no memory is shared." in str(found)
    assert len(explore(processes, **race, options=Options(reduce=False)).orders) == 6
    every = Options(on_schedule=lambda schedule: None)
    assert len(explore(processes, **race, options=every).orders) == 6


def test_max_schedules_counts_those_that_run() -> None:
    found = explore_all(*[counter.atomic_only] * 3, reduce=True, max_schedules=20)
    assert (len(found.orders), found.schedules > 20) == (20, True)
    assert "search was truncated: max_schedules=20" in str(found)
