"""Limits are reported, what cannot be explored is refused, and a counterexample is drawn."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction

from pginterleave import (
    CannotExplore,
    Exploration,
    InterleaveError,
    NotDeterministic,
    Outcome,
    explore,
)

from . import counter
from .counter import Counter, counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")


def run(*processes: Callable[[], object], **options: Any) -> Exploration:
    options = {"setup": counter.setup, "invariant": counter.counted(2), **options}
    return explore(processes or [counter.naive] * 2, **options)


def test_the_counterexample_is_the_shortest_and_is_drawn() -> None:
    found = run()
    assert str(found) == "4 of 6 schedules violate the invariant"
    assert [schedule.order for schedule in found.violations] == ["1212", "1221", "2112", "2121"]
    with pytest.raises(AssertionError) as raised:
        found.assert_safe()
    lines = str(raised.value).splitlines()
    assert lines[0] == "4 of 6 schedules violate the invariant. The shortest is 1212:"
    assert lines[2].split() == ["process", "1", "process", "2"]
    assert lines[3].startswith("1  SELECT id, key, hits")
    assert lines[-1] == "hits = 1"


def test_a_shorter_counterexample_wins_over_an_earlier_one() -> None:
    """Who comes second has to try again when both have read the same."""
    first = itertools.chain([""], itertools.repeat("shown"))
    found = run(*[counter.compare_and_swap] * 2, invariant=lambda outcomes: next(first))
    assert [schedule.order for schedule in found.violations][:2] == ["121222", "122111"]
    assert found.counterexample
    assert found.counterexample.order == "2211"


def test_a_truncated_search_is_not_a_proof() -> None:
    found = run(*[counter.update_returning] * 2, max_schedules=1)
    assert (found.schedules, found.complete) == (1, False)
    with pytest.raises(
        AssertionError, match=r"Not proven: 0 of the first 1 .*truncated: max_schedules=1 reached"
    ):
        found.assert_safe()
    found = run(*[counter.update_returning] * 2, max_seconds=1e-9)
    assert (found.schedules, found.truncated) == (1, "max_seconds=1e-09 passed after 1 schedules")


def test_nothing_is_proven_where_nothing_was_sent() -> None:
    found = run(lambda: Counter.objects.filter(key="a"), invariant=counter.anything)
    assert str(found) == "0 of 1 schedules violate the invariant"
    with pytest.raises(AssertionError, match="Not proven: no process has sent anything"):
        found.assert_safe()


def test_nothing_is_proven_by_a_mistake() -> None:
    def mistaken() -> None:
        counter.naive()
        Counter.objects.hits()  # type: ignore[attr-defined]

    found = run(counter.naive, mistaken, invariant=counter.anything)
    mistake = r"process 2 raises AttributeError: .* 'hits' \(test_\w+\.py:\d+\) in schedule 1122"
    with pytest.raises(
        AssertionError, match=rf"Not proven: 0 of 6 schedules violate the invariant, but {mistake}"
    ):
        found.assert_safe()


def test_an_exception_that_the_invariant_allows_is_an_outcome() -> None:
    def refuses() -> None:
        counter.naive()
        raise LookupError("no more of it")

    run(refuses, invariant=counter.anything).assert_safe()


def test_an_async_function_is_not_a_process() -> None:
    async def process() -> None:
        """Do nothing."""

    found = run(process, counter.naive, invariant=counter.anything)
    with pytest.raises(AssertionError, match="an async function was called and not run"):
        found.assert_safe()


def test_a_limit_that_is_not_reached_does_not_truncate() -> None:
    assert run(*[counter.update_returning] * 2, max_schedules=2).complete


def test_a_limit_may_be_endless() -> None:
    sql("SET lock_timeout = 0")
    assert run(step_timeout=float("inf")).complete
    sql("RESET lock_timeout")


def test_an_open_transaction_is_refused() -> None:
    with transaction.atomic(), pytest.raises(CannotExplore, match="TransactionTestCase"):
        run()


def test_a_setup_that_leaves_a_transaction_open_is_refused() -> None:
    def setup() -> None:
        transaction.set_autocommit(False)
        counter.setup()

    with pytest.raises(CannotExplore, match="setup has left a transaction open"):
        run(setup=setup)
    connection.rollback()
    transaction.set_autocommit(True)


@pytest.mark.parametrize("processes", [[], [counter.naive] * 10, [counter.naive, None]])
def test_no_process_too_many_or_none_at_all_are_refused(processes: list[Any]) -> None:
    with pytest.raises(CannotExplore, match="Give 1 to 9 processes, each a callable"):
        explore(processes, setup=counter.setup, invariant=counter.anything)


def test_other_databases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    with pytest.raises(CannotExplore, match="is sqlite; only PostgreSQL"):
        run()


@pytest.mark.parametrize("limit", ["max_schedules", "max_seconds", "max_steps", "step_timeout"])
def test_limits_below_one_are_refused(limit: str) -> None:
    with pytest.raises(CannotExplore, match=f"{limit}.* must be greater than zero"):
        run(**{limit: 0})


def test_an_invariant_may_assert_but_must_not_return_a_bool() -> None:
    def asserts(outcomes: list[Outcome]) -> None:
        assert counter.hits() == 2, "an update was lost"

    assert {
        schedule.violation.splitlines()[0] for schedule in run(invariant=asserts).violations
    } == {"an update was lost"}
    with pytest.raises(CannotExplore, match="must return a str or None, not True"):
        run(invariant=lambda outcomes: True)


def test_a_process_that_takes_another_way_is_named() -> None:
    ways = itertools.count()

    def changing() -> None:
        counter.naive()
        if next(ways) == 1:
            sql("SELECT 1")
        counter.naive()

    with pytest.raises(NotDeterministic) as raised:
        run(changing, counter.naive)
    assert "process 1 was at" in str(raised.value)
    assert "'SELECT 1' now" in str(raised.value) or "'SELECT 1' the first" in str(raised.value)


def test_a_loop_without_an_end_is_an_error() -> None:
    def forever() -> None:
        while True:
            counter.hits()

    with pytest.raises(InterleaveError, match=r"max_steps=20.*Process 1 is about to send 'SELECT"):
        run(forever, max_steps=20)
