"""The numbers of schedules and of violating schedules are exact, also with COMMIT as a step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection

from pginterleave import Exploration, Outcome

from . import counter
from .counter import Counter, Process, explore_all, explore_both, sql

pytestmark = pytest.mark.usefixtures("counter_table")

HITS = [
    (2, counter.naive, 12, 14),
    (2, counter.atomic_only, 12, 14),
    (2, counter.select_for_update, 0, 6),
    (2, counter.f_expression, 0, 14),
    (2, counter.compare_and_swap, 0, 14),
    pytest.param(3, counter.naive, 630, 636, marks=pytest.mark.big),
    (3, counter.select_for_update, 0, 72),
    pytest.param(4, counter.update_returning, 0, 336, marks=pytest.mark.big),
]


@pytest.mark.parametrize(("processes", "resolve", "violating", "schedules"), HITS)
def test_processes_that_count(
    processes: int, resolve: Callable[[], object], violating: int, schedules: int
) -> None:
    found = explore_all(*[resolve] * processes, invariant=counter.expect_hits(processes))
    assert (found.violating, found.schedules, found.complete) == (violating, schedules, True)
    assert len({*found.orders}) == schedules
    assert {each.order for each in found.violations} <= {*found.orders}
    assert len(found.violations) == violating


UNLESS_THERE = """
    INSERT INTO interleave_counter
    SELECT %s, %s, 7 WHERE NOT EXISTS (SELECT FROM interleave_counter WHERE hits = 7)
"""
FIRST_FREE = """
    UPDATE interleave_counter SET hits = hits + 1
    WHERE id = (SELECT id FROM interleave_counter WHERE hits = 0 ORDER BY id LIMIT 1)
"""


def one_is_there(outcomes: list[Outcome]) -> str:
    found = Counter.objects.filter(hits=7).count()
    return "" if found == 1 else f"{found} rows"


def none_is_taken_twice(outcomes: list[Outcome]) -> str:
    return "taken twice" if Counter.objects.filter(hits__gt=1).exists() else ""


@pytest.mark.parametrize(
    ("processes", "invariant", "counts"),
    [
        # INSERT, COMMIT each: it holds if one commits before the other reads, in 1122 and 2211.
        ([partial(sql, UNLESS_THERE, row, f"own {row}") for row in (3, 4)], one_is_there, (4, 6)),
        # Both choose the same row. The second waits for the first, and updates it nevertheless.
        ([partial(sql, FIRST_FREE)] * 2, none_is_taken_twice, (2, 4)),
    ],
)
def test_the_commit_of_a_statement_that_reads_and_writes_is_a_step(
    processes: list[Process], invariant: Callable[[list[Outcome]], str], counts: tuple[int, int]
) -> None:
    every, _ = explore_both(*processes, invariant=invariant)
    assert (every.violating, every.schedules) == counts
    assert {"1122", "2211"}.isdisjoint(schedule.order for schedule in every.violations)


def test_a_statement_that_fails_is_undone_at_once() -> None:
    def fail() -> None:
        for _ in range(2):
            with pytest.raises(IntegrityError):
                sql("INSERT INTO interleave_counter VALUES (3, 'c', 0), (1, 'd', 0)")

    insert = partial(sql, "INSERT INTO interleave_counter VALUES (3, 'e', 0)")
    every, _ = explore_both(fail, insert, invariant=lambda outcomes: str(outcomes[1].raised or ""))
    # It may wait for the row of the other process, and then fail.
    assert every.violating == 0
    timeline = counter.replay("1122", fail, insert).timeline
    assert all(not step.error or step.kind == "INSERT" for step in timeline)


def explore_with_deferred_constraint(*rows: int, **options: Any) -> Exploration:
    """Explore processes that insert these rows with the same hits, which only one may have."""
    constraint = "ADD CONSTRAINT once UNIQUE (hits) DEFERRABLE INITIALLY DEFERRED"
    sql(f"ALTER TABLE interleave_counter {constraint}")
    insert = "INSERT INTO interleave_counter VALUES (%s, %s, 9)"
    processes = [partial(sql, insert, row, f"own {row}") for row in rows]
    return explore_all(*processes, setup=partial(sql, "DELETE FROM interleave_counter"), **options)


def test_a_deferred_constraint_fails_in_the_commit() -> None:
    found = explore_with_deferred_constraint(
        3, 4, invariant=lambda outcomes: " ".join(type(each.raised).__name__ for each in outcomes)
    )
    ends = {each.violation for each in found.violations}
    assert ends == {"NoneType IntegrityError", "IntegrityError NoneType"}
    steps = [step for each in found.violations for step in each.timeline]
    assert {step.kind for step in steps if step.error} == {"COMMIT"}


def test_the_order_of_two_commits_that_one_step_lets_go_on_is_chance() -> None:
    """It varies: threads may end in another one."""
    found = explore_with_deferred_constraint(3, 4, 5, reduce=True)
    chance = "which COMMIT of processes 2 and 3 was first, as one step let both go on"
    assert chance in found.unexplored
    with pytest.raises(
        AssertionError, match="Not proven: by chance PostgreSQL decides which COMMIT"
    ):
        found.assert_safe()


several = partial(sql, "UPDATE interleave_counter SET hits = 1; SELECT 1")


def many() -> None:
    with connection.cursor() as cursor:
        statement = "UPDATE interleave_counter SET hits = %s WHERE id = %s"
        cursor.executemany(statement, [(1, 1), (1, 2)])


def test_executemany_commits_in_its_step() -> None:
    """A SELECT before it differs from a SELECT behind it, so reduction keeps both orders."""

    def read_twice() -> tuple[int, int]:
        return counter.hits(), counter.hits()

    def halfway(outcomes: list[Outcome]) -> str:
        first, second = outcomes[1].returned
        return "" if first == second else "between"

    every, _ = explore_both(many, read_twice, invariant=halfway)
    assert (every.violating, every.schedules) == (1, 3)


@pytest.mark.parametrize("process", [counter.hits, several, many])
def test_steps_without_a_separate_commit(process: Process) -> None:
    assert {*explore_all(process, process).orders} == {"12", "21"}
