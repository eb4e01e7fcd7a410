"""Limits are reported, what cannot be explored is refused, and nothing is proven by a mistake."""

import itertools
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from pginterleave import CannotExplore, NotDeterministic, Outcome

from . import counter
from .counter import Counter, explored, sql

pytestmark = pytest.mark.usefixtures("counter_table")

run = partial(explored, counter.naive, counter.naive)


def test_the_shortest_counterexample_has_the_fewest_switches() -> None:
    def looks_twice() -> None:
        if counter.hits():
            counter.hits()

    results = itertools.chain(["shown", ""], itertools.repeat("shown"))  # not the second, 211
    invariant = {"invariant": lambda outcomes: next(results), "split_autocommit": False}
    found = explored(counter.naive, looks_twice, **invariant)
    assert [schedule.order for schedule in found.violations] == ["1122", "121"]
    assert found.counterexample
    assert found.counterexample.order == "121"

    found = run(invariant=counter.counted(2))
    assert {"112122", "112212", "122211"} < {each.order for each in found.violations}
    assert found.counterexample
    assert found.counterexample.order == "122211"


def test_a_truncated_search_is_not_a_proof() -> None:
    run_short = partial(explored, counter.hits, counter.hits)
    assert run_short(max_schedules=2).complete
    found = run_short(max_schedules=1)
    assert (found.schedules, found.complete) == (1, False)
    message = r"Not proven: 0 of the first 1 .*truncated: max_schedules=1 reached"
    with pytest.raises(AssertionError, match=message):
        found.assert_safe()
    found = run_short(max_seconds=1e-9)
    assert (found.schedules, found.truncated) == (1, "max_seconds=1e-09 passed after 1 schedules")


def test_nothing_is_proven_by_a_mistake() -> None:
    found = explored(lambda: Counter.objects.filter(key="a"))
    with pytest.raises(AssertionError, match="Not proven: no process has sent anything"):
        found.assert_safe()


def refuses() -> None:
    counter.naive()
    raise LookupError("no more of it")


@pytest.mark.parametrize("expected", [(), KeyError, (KeyError, OSError)])
def test_an_exception_that_is_not_expected_is_a_violation(expected: Any) -> None:
    """Also if the invariant holds, as here."""
    found = explored(counter.naive, refuses, expected=expected)
    assert (found.violating, found.schedules) == (14, 14)
    message = rf"process 2 raises LookupError: no more of it \({Path(__file__).name}:\d+\)"
    assert re.fullmatch(message, found.violations[0].violation)


@pytest.mark.parametrize("expected", [LookupError, (OSError, LookupError), Exception])
def test_an_exception_that_is_expected_is_an_outcome(expected: Any) -> None:
    explored(counter.naive, refuses, expected=expected).assert_safe()


def test_a_limit_may_be_endless() -> None:
    sql("SET lock_timeout = 0")
    assert run(step_timeout=float("inf")).complete
    sql("RESET lock_timeout")


def test_a_setup_that_leaves_a_transaction_open_is_refused() -> None:
    def setup() -> None:
        transaction.set_autocommit(False)
        counter.setup()

    with pytest.raises(CannotExplore, match="setup has left a transaction open"):
        run(setup=setup)
    connection.rollback()
    transaction.set_autocommit(True)
    with pytest.raises(CannotExplore, match="setup has left a transaction open"):
        run(setup=partial(sql, "BEGIN"))
    sql("ROLLBACK")


@pytest.mark.parametrize(
    ("processes", "limits", "message"),
    [
        ([], {}, "Give 1 to 9 processes, each a callable"),
        ([counter.naive] * 10, {}, "Give 1 to 9 processes"),
        ([counter.naive, None], {}, "each a callable"),
        ([counter.naive], {"max_schedules": 0}, "max_schedules.* must be greater than zero"),
        ([counter.naive], {"max_seconds": 0}, "max_seconds.* must be"),
        ([counter.naive], {"max_steps": 0}, "max_steps.* must be"),
        ([counter.naive], {"step_timeout": 0}, "step_timeout.* must be"),
        ([counter.naive], {"expected": None}, "expected must be classes of exceptions, not "),
        ([counter.naive], {"expected": (LookupError(),)}, "expected must be"),
        ([counter.naive], {"expected": [LookupError]}, "expected must be"),
        ([counter.naive], {"expected": int}, "expected must be"),
        ([counter.naive], {"isolation_level": "snapshot"}, "'snapshot', and not one of read comm"),
        ([counter.naive], {"preemption_bound": -1}, "must not be negative"),
        ([counter.naive], {"sample": 0}, "sample must be greater than zero"),
        ([counter.naive], {"sample": 3, "reduce": True}, "goes with neither"),
        ([counter.naive], {"sample": 3, "symmetric": True}, "goes with neither"),
        ([counter.naive], {"sample": 3, "preemption_bound": 3}, "goes with neither"),
    ],
)
def test_wrong_arguments_are_refused(processes: list[Any], limits: Any, message: str) -> None:
    with pytest.raises(CannotExplore, match=message):
        explored(*processes, **limits)


def test_other_databases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    with pytest.raises(CannotExplore, match="is sqlite; only PostgreSQL"):
        run()


def test_an_invariant_may_assert_but_must_not_return_a_bool() -> None:
    def asserts(outcomes: list[Outcome]) -> None:
        assert counter.hits() == 2, "an update was lost"

    violations = run(invariant=asserts, split_autocommit=False).violations
    shown = {each.order: each.violation.splitlines()[0] for each in violations}
    assert shown == dict.fromkeys(["1212", "1221", "2112", "2121"], "an update was lost")
    with pytest.raises(CannotExplore, match="must return a str or None, not True"):
        run(invariant=lambda outcomes: True)


def test_a_process_that_takes_another_way_is_named() -> None:
    ways = itertools.count()

    def changing() -> None:
        counter.naive()
        if next(ways) % 2:
            sql("SELECT 1")
        counter.naive()

    with pytest.raises(NotDeterministic, match=r"process 1 was at .*'SELECT 1' (now|the first)"):
        explored(changing, counter.naive)
