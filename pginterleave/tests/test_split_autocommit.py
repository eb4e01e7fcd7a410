"""The COMMIT of a statement outside a transaction is a step, unless split_autocommit=False."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection

from pginterleave import Exploration, Outcome

from . import counter
from .counter import Counter, Process, explored, sql

pytestmark = pytest.mark.usefixtures("counter_table")

UNLESS_THERE = """
    INSERT INTO interleave_counter
    SELECT %s, %s, 7 WHERE NOT EXISTS (SELECT FROM interleave_counter WHERE hits = 7)
"""
FIRST_FREE = """
    UPDATE interleave_counter SET hits = hits + 1
    WHERE id = (SELECT id FROM interleave_counter WHERE hits = 0 ORDER BY id LIMIT 1)
"""

unless_there = [partial(sql, UNLESS_THERE, number, f"own {number}") for number in (3, 4)]
first_free = partial(sql, FIRST_FREE)


def only_one(outcomes: list[Outcome]) -> str:
    found = Counter.objects.filter(hits=7).count()
    return "" if found == 1 else f"{found} rows"


def none_twice(outcomes: list[Outcome]) -> str:
    return "taken twice" if Counter.objects.filter(hits__gt=1).exists() else ""


def both(*processes: Process, **options: Any) -> list[Exploration]:
    """Explore with one step for both, with two, and that reduced, whose counts must agree."""
    plain = explored(*processes, split_autocommit=False, **options)
    split, reduced = (explored(*processes, reduce=reduce, **options) for reduce in (False, True))
    assert plain.complete
    assert not split.truncated
    assert (reduced.violating, reduced.schedules) == (split.violating, split.schedules)
    return [plain, split]


@pytest.mark.parametrize(
    ("processes", "invariant", "counts"),
    [
        # INSERT, COMMIT each: it holds where one commits before the other looks, 1122 and 2211.
        (unless_there, only_one, (4, 6)),
        # The second waits for the first, whose row it has chosen, and takes it all the same.
        ([first_free, first_free], none_twice, (2, 4)),
    ],
)
def test_a_statement_that_looks_and_writes(
    processes: list[Process], invariant: Callable[[list[Outcome]], str], counts: tuple[int, int]
) -> None:
    plain, split = both(*processes, invariant=invariant)
    assert (plain.violating, plain.schedules) == (0, 2)
    assert (split.violating, split.schedules) == counts
    with_commits = {"".join(digit * 2 for digit in order) for order in plain.orders}
    assert with_commits <= set(split.orders)


def test_a_statement_that_fails_is_undone_at_once() -> None:
    def fail() -> None:
        for _ in range(2):
            with pytest.raises(IntegrityError):
                sql("INSERT INTO interleave_counter VALUES (3, 'c', 0), (1, 'd', 0)")

    insert = partial(sql, "INSERT INTO interleave_counter VALUES (3, 'e', 0)")
    _, split = both(fail, insert, invariant=lambda outcomes: str(outcomes[1].raised or ""))
    # It may wait for what the other has inserted, and then fail for that.
    assert split.violating == 0
    assert all(not step.error or step.kind == "INSERT" for step in split.replay("1122").timeline)


def test_a_constraint_that_is_looked_at_last() -> None:
    sql(
        "ALTER TABLE interleave_counter ADD CONSTRAINT once UNIQUE (hits) "
        "DEFERRABLE INITIALLY DEFERRED"
    )

    insert = "INSERT INTO interleave_counter VALUES (%s, %s, 9)"
    found = explored(
        *[partial(sql, insert, number, f"own {number}") for number in (3, 4)],
        setup=partial(sql, "DELETE FROM interleave_counter"),
        invariant=lambda outcomes: " ".join(type(each.raised).__name__ for each in outcomes),
    )
    assert {each.violation for each in found.violations} == {
        "NoneType IntegrityError",
        "IntegrityError NoneType",
    }
    steps = [step for each in found.violations for step in each.timeline]
    assert {step.kind for step in steps if step.error} == {"COMMIT"}


def several() -> None:
    sql("UPDATE interleave_counter SET hits = 1; SELECT 1")


def many() -> None:
    with connection.cursor() as cursor:
        statement = "UPDATE interleave_counter SET hits = %s WHERE id = %s"
        cursor.executemany(statement, [(1, 1), (1, 2)])


def test_many_at_once_are_committed_in_their_step() -> None:
    """So a SELECT before them and one behind them differ, and neither stands for the other."""

    def read_twice() -> tuple[int, int]:
        return counter.hits(), counter.hits()

    def halfway(outcomes: list[Outcome]) -> str:
        first, second = outcomes[1].returned
        return "" if first == second else "between"

    _, split = both(many, read_twice, invariant=halfway)
    assert (split.violating, split.schedules) == (1, 3)


@pytest.mark.parametrize("process", [counter.hits, counter.atomic_only, several, many])
def test_what_is_as_it_was(process: Process) -> None:
    plain, split = both(process, process)
    assert plain.orders == split.orders
