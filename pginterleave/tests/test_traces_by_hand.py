"""What a reduced search runs, beside the traces counted by hand: orders that differ in more than
the order of independent steps.
"""

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import transaction

from . import counter
from .counter import Process, explored, sql

pytestmark = pytest.mark.usefixtures("other_table")


@pytest.fixture
def other_table(counter_table: None) -> Iterator[None]:
    sql("CREATE TABLE interleave_other (id int PRIMARY KEY, n int)")
    yield
    sql("DROP TABLE interleave_other")


def setup() -> None:
    counter.setup()
    sql("INSERT INTO interleave_counter VALUES (3, 'c', 0)")
    sql("DELETE FROM interleave_other")
    sql("INSERT INTO interleave_other VALUES (1, 0)")


def read(row: int, times: int = 1) -> None:
    with transaction.atomic():
        for _ in range(times):
            sql("SELECT hits FROM interleave_counter WHERE id = %s", row)


def write(row: int, table: str = "interleave_counter", column: str = "hits") -> None:
    sql(f"UPDATE {table} SET {column} = {column} + 1 WHERE id = %s", row)


def read_and_write(row: int) -> None:
    sql("SELECT hits FROM interleave_counter WHERE id = %s", row)
    write(row)


def insert(row: int) -> None:
    sql("INSERT INTO interleave_counter VALUES (%s, %s, 0)", row, str(row))


other = partial(write, 1, "interleave_other", "n")

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
    ([partial(read, 1, 2), partial(write, 1)], 3, 10),
    ([partial(read, 2, 2), partial(write, 1)], 1, 10),
    # An INSERT may meet any row of its table: INSERT and COMMIT of both, in each order.
    ([partial(insert, 4), partial(write, 1)], 6, 6),
    ([partial(insert, 4), other], 1, 6),
]


@pytest.mark.parametrize(("processes", "traces", "schedules"), BY_HAND)
def test_what_runs_is_what_was_counted_by_hand(
    processes: list[Process], traces: int, schedules: int
) -> None:
    ran = []

    def note_and_set_up() -> None:
        ran.append(True)
        setup()

    found = explored(*processes, setup=note_and_set_up, reduce=True)
    assert (len(found.orders), found.schedules, found.truncated) == (traces, schedules, "")
    assert len(ran) <= traces + 1  # of which one may lead to what is known


def test_a_row_that_was_waited_for_stays_locked() -> None:
    """2 and 3 wait for 1, after which no row meets their condition: yet 3 waits for 2's COMMIT."""
    guard = partial(sql, "UPDATE interleave_counter SET hits = 3 WHERE id = 1 AND hits < 2")
    counts = {
        (found.schedules, found.violating)
        for found in (explored(*[guard] * 3, setup=setup, reduce=each) for each in (False, True))
    }
    assert counts == {(42, 0)}
