"""Options that bound a search: symmetric processes, preemptions, samples. None proves too much."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pginterleave import CannotExplore, NotDeterministic, Outcome

from . import counter
from .counter import Counter, explored, sql

pytestmark = [pytest.mark.usefixtures("counter_table"), pytest.mark.big]


def add(number: int) -> None:
    row = Counter.objects.get(key="a")
    row.hits += number
    row.save()


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize(
    "processes",
    [
        [counter.naive] * 3,
        [counter.compare_and_swap] * 2,
        [partial(add, 1), counter.update_returning, partial(add, 1)],
        [counter.select_for_update] * 3,
        [lambda: None] * 2,  # without a step, so no exchange is possible
    ],
)
def test_symmetric_processes_count_the_same(
    processes: list[Callable[[], object]], reduce: bool
) -> None:
    options: dict[str, Any] = {
        "invariant": counter.counted(len(processes)),
        "reduce": reduce,
        "split_autocommit": False,
    }
    every = explored(*processes, **options)
    symmetric = explored(*processes, **options, symmetric=True)
    assert (symmetric.schedules, symmetric.violating) == (every.schedules, every.violating)
    assert symmetric.complete
    assert {*symmetric.orders} <= {*every.orders} or reduce
    assert len(symmetric.orders) < len(every.orders) or every.schedules == 1
    first, second = (
        each.counterexample and each.counterexample.order for each in (every, symmetric)
    )
    assert first == second


def test_equal_processes_at_the_same_position_are_exchanged_too() -> None:
    """A sixth of the 900 schedules that are left after partial-order reduction."""
    options = {"invariant": counter.counted(3), "reduce": True, "symmetric": True}
    found = explored(*[counter.compare_and_swap] * 3, **options)
    assert (found.violating, found.schedules, len(found.orders)) == (0, 18_024, 150)
    # Of the 6 schedules without a wait, too.
    found = explored(*[counter.select_for_update] * 3, **options)
    assert (found.violating, found.schedules, found.orders) == (0, 72, ("111222333",))


def closing_over(number: int) -> Callable[[], None]:
    return lambda: add(number)


@pytest.mark.parametrize(
    "processes",
    [
        [closing_over(1), closing_over(2)],
        [closing_over(1), closing_over(1)],
        [partial(add, 1), partial(add, 2)],
        [partial(add, 1), partial(add, True)],
        [partial(add, 1), partial(add, number=1)],
        [partial(print, Counter(id=1, hits=1)), partial(print, Counter(id=1, hits=2))],
        [partial(print, [1]), partial(print, [1])],
        [counter.naive, counter.select_for_update],
    ],
)
def test_processes_that_may_differ_are_not_symmetric(processes: list[Callable[[], object]]) -> None:
    with pytest.raises(CannotExplore, match="no two processes are the same"):
        explored(*processes, symmetric=True)


def test_a_function_that_differs_between_processes_is_refused() -> None:
    numbers = itertools.cycle([1, 2])

    def adds_another_number() -> None:
        add(next(numbers))

    with pytest.raises(NotDeterministic, match="The processes are not symmetric: 1221 and 2112"):
        explored(
            *[adds_another_number] * 2,
            symmetric=True,
            invariant=lambda _: "" if counter.hits() > 1 else "the second was lost",
            split_autocommit=False,
        )


def test_an_invariant_that_is_not_symmetric_is_refused() -> None:
    def second_is_not_first(outcomes: list[Outcome]) -> str:
        return "the second was first" if outcomes[1].returned == [(1,)] else ""

    processes = [counter.update_returning] * 3
    with pytest.raises(NotDeterministic, match="The processes are not symmetric"):
        explored(*processes, invariant=second_is_not_first, symmetric=True)


def test_a_counterexample_that_holds_when_it_runs_is_refused() -> None:
    """It runs last, because only equivalent schedules have run before."""
    calls: list[str] = []
    last = 0

    def lost(outcomes: list[Outcome]) -> str:
        calls.append(counter.counted(3)(outcomes))
        return "" if len(calls) == last else calls[-1]

    explore_it = partial(
        explored, *[counter.naive] * 3, reduce=True, symmetric=True, invariant=lost
    )
    assert explore_it().violating == 630
    last = len(calls)
    calls.clear()
    with pytest.raises(NotDeterministic, match="111233322 does not violate the invariant, though"):
        explore_it()


def test_processes_with_different_first_steps_are_refused() -> None:
    ways = itertools.cycle(["SELECT 1", "SELECT 2"])
    with pytest.raises(CannotExplore, match=r"process 1 was at 'SELECT 1' .* process 2 was at"):
        explored(*[lambda: sql(next(ways))] * 2, symmetric=True)
