"""split_autocommit=True: the COMMIT of a statement outside a transaction is a step of its own."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction

from pginterleave import Exploration, Outcome, explore, run_schedule

from . import counter
from .counter import Counter, counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")

Process = Callable[[], object]
UNLESS_THERE = """
    INSERT INTO interleave_counter
    SELECT %s, %s, 7 WHERE NOT EXISTS (SELECT FROM interleave_counter WHERE hits = 7)
"""
FIRST_FREE = """
    UPDATE interleave_counter SET hits = hits + 1
    WHERE id = (SELECT id FROM interleave_counter WHERE hits = 0 ORDER BY id LIMIT 1)
"""


def unless_there(number: int) -> None:
    sql(UNLESS_THERE, number, f"own {number}")


def first_free() -> None:
    sql(FIRST_FREE)


def only_one(outcomes: list[Outcome]) -> str:
    found = Counter.objects.filter(hits=7).count()
    return "" if found == 1 else f"{found} rows"


def none_twice(outcomes: list[Outcome]) -> str:
    return "taken twice" if Counter.objects.filter(hits__gt=1).exists() else ""


def both(*processes: Process, invariant: Callable[[list[Outcome]], str]) -> list[Exploration]:
    """Explore without it, with it, and with it reduced, whose counts must agree."""
    plain, split, reduced = (
        explore(list(processes), setup=counter.setup, invariant=invariant, **options)  # type: ignore[arg-type]
        for options in ({}, {"split_autocommit": True}, {"split_autocommit": True, "reduce": True})
    )
    assert plain.complete
    assert split.complete
    assert (reduced.violating, reduced.schedules) == (split.violating, split.schedules)
    return [plain, split]


@pytest.mark.parametrize(
    ("processes", "invariant", "counts"),
    [
        # INSERT, COMMIT each: it holds where one commits before the other looks, 1122 and 2211.
        ([partial(unless_there, 3), partial(unless_there, 4)], only_one, (4, 6)),
        # The second waits for the first, whose row it has chosen, and takes it all the same.
        ([first_free, first_free], none_twice, (2, 4)),
    ],
)
def test_a_statement_that_looks_and_writes(
    processes: list[Process],
    invariant: Callable[[list[Outcome]], str],
    counts: tuple[int, int],
) -> None:
    plain, split = both(*processes, invariant=invariant)
    assert (plain.violating, plain.schedules) == (0, 2)
    assert (split.violating, split.schedules) == counts
    with_commits = {"".join(digit * 2 for digit in order) for order in plain.orders}
    assert with_commits <= set(split.orders)


def test_a_counterexample_is_replayed_with_its_commits() -> None:
    processes = [partial(unless_there, 3), partial(unless_there, 4)]
    _, split = both(*processes, invariant=only_one)
    assert split.counterexample
    assert [step.kind for step in split.counterexample.timeline] == ["INSERT"] * 2 + ["COMMIT"] * 2
    for again in (
        split.replay(split.counterexample.order),
        run_schedule(
            split.counterexample.order,
            processes,
            setup=counter.setup,
            invariant=only_one,
            split_autocommit=True,
        ),
    ):
        assert again == split.counterexample


def test_what_is_returned_comes_through() -> None:
    (row,) = explore(
        [counter.update_returning],
        setup=counter.setup,
        invariant=lambda outcomes: "" if outcomes[0].returned == [(1,)] else "nothing returned",
        split_autocommit=True,
    ).orders
    assert row == "11"


def test_a_statement_that_fails_is_undone_at_once() -> None:
    def fail() -> None:
        for _ in range(2):
            with pytest.raises(IntegrityError):
                sql("INSERT INTO interleave_counter VALUES (3, 'c', 0), (1, 'd', 0)")

    def insert() -> None:
        sql("INSERT INTO interleave_counter VALUES (3, 'e', 0)")

    _, split = both(fail, insert, invariant=lambda outcomes: str(outcomes[1].raised or ""))
    # It may wait for what the other has inserted, and then fail for that.
    assert split.violating == 0
    assert all(not step.error or step.kind == "INSERT" for step in split.replay("1122").timeline)


def test_a_constraint_that_is_looked_at_last() -> None:
    sql(
        "ALTER TABLE interleave_counter ADD CONSTRAINT once UNIQUE (hits) "
        "DEFERRABLE INITIALLY DEFERRED"
    )

    def insert(number: int) -> None:
        sql("INSERT INTO interleave_counter VALUES (%s, %s, 9)", number, f"own {number}")

    def setup() -> None:
        sql("DELETE FROM interleave_counter")

    found = explore(
        [partial(insert, 1), partial(insert, 2)],
        setup=setup,
        invariant=lambda outcomes: " ".join(type(each.raised).__name__ for each in outcomes),
        split_autocommit=True,
    )
    assert {each.violation for each in found.violations} == {
        "NoneType IntegrityError",
        "IntegrityError NoneType",
    }
    assert {step.kind for each in found.violations for step in each.timeline if step.error} == {
        "COMMIT"
    }


def in_a_transaction() -> None:
    with transaction.atomic():
        counter.f_expression()


def several() -> None:
    sql("UPDATE interleave_counter SET hits = 1; SELECT 1")


def many() -> None:
    with connection.cursor() as cursor:
        statement = "UPDATE interleave_counter SET hits = %s WHERE id = %s"
        cursor.executemany(statement, [(1, 1), (1, 2)])


def read_twice() -> tuple[int, int]:
    return counter.hits("a"), counter.hits("b")


def test_many_at_once_are_committed_in_their_step() -> None:
    """So a SELECT before them and one behind them differ, and neither stands for the other."""

    def halfway(outcomes: list[Outcome]) -> str:
        first, second = outcomes[1].returned
        return "" if first == second else "between"

    _, split = both(many, read_twice, invariant=halfway)
    assert (split.violating, split.schedules) == (1, 3)


@pytest.mark.parametrize(
    "statement",
    [FIRST_FREE + " AND key != 'a; b'", FIRST_FREE + "; -- done", f"/* ; */ {FIRST_FREE}"],
)
def test_a_semicolon_that_ends_nothing(statement: str) -> None:
    process = partial(sql, statement)
    _, split = both(process, process, invariant=none_twice)
    assert (split.violating, split.schedules) == (2, 4)


@pytest.mark.parametrize("process", [counter.hits, in_a_transaction, several, many])
def test_what_is_as_it_was(process: Process) -> None:
    plain, split = both(process, process, invariant=lambda _: "")
    assert plain.orders == split.orders
