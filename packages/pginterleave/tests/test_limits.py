"""The limits and refusals of a search, and their messages; no mistake counts as a proof."""

import inspect
import itertools
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

from pginterleave import CannotExplore, NotProven, Outcome, Schedule
from pginterleave.pytest_plugin import Interleave
from pginterleave.searching.runs import rate_simplicity, shrink

from . import counter
from .counter import Counter, anything, expect_hits, explore_all, naive, replay, sql

pytestmark = pytest.mark.usefixtures("counter_table")

run = partial(explore_all, counter.naive, counter.naive)


def test_the_shortest_counterexample_has_the_fewest_switches() -> None:
    def looks_twice() -> None:
        if counter.hits():
            counter.hits()

    results = itertools.chain(["shown", ""], itertools.repeat("shown"))  # the second, 2111, holds
    options = {"invariant": lambda outcomes: next(results)}
    for found, orders, shortest in (
        (explore_all(counter.naive, looks_twice, **options), {"11122", "1121"}, "1121"),
        (run(invariant=counter.expect_hits(2)), {"112122", "112212", "122211"}, "122211"),
    ):
        assert orders <= {schedule.order for schedule in found.violations}
        assert found.counterexample
        assert found.counterexample.order == shortest


def test_a_truncated_search_is_not_a_proof() -> None:
    run_short = partial(explore_all, counter.hits, counter.hits)
    assert run_short(max_schedules=2).complete
    found = run_short(max_schedules=1)
    assert (found.schedules, found.complete) == (1, False)
    message = r"Not proven: the search was truncated: max_schedules=1 reached\."
    with pytest.raises(AssertionError, match=message):
        found.assert_safe()
    found = run_short(max_seconds=1e-9)
    assert (found.schedules, found.truncated) == (1, "max_seconds=1e-09 passed after 1 schedules")


def test_a_bounded_search_is_safe_within_its_bound_and_says_so() -> None:
    """One preemption shows the lost update; without any, the processes run one after the other."""
    found = run(invariant=expect_hits(2), max_preemptions=0)
    found.assert_safe()
    assert (found.schedules, found.complete, found.counted_preemptions) == (2, False, 0)
    assert found.limits == ("schedules with more than 0 preemptions",)
    found = run(invariant=expect_hits(2), max_preemptions=1)
    assert (found.violating, found.counted_preemptions) == (4, 1)
    with pytest.raises(CannotExplore, match="max_preemptions=-1 is less than zero"):
        run(max_preemptions=-1)


def test_processes_that_send_nothing_have_one_schedule_and_prove_nothing() -> None:
    found = explore_all(*[lambda: Counter.objects.filter(key="a")] * 2, reduce=True)
    assert found.orders == ("",)
    with pytest.raises(AssertionError, match="Not proven: no process has sent anything"):
        found.assert_safe()


def refuses() -> None:
    counter.naive()
    raise LookupError("no more of it")


@pytest.mark.parametrize(
    ("expected", "is_violation"),
    [
        ((), True),
        (KeyError, True),
        ((KeyError, OSError), True),
        (LookupError, False),
        ((OSError, LookupError), False),
        (Exception, False),
    ],
)
def test_an_unexpected_exception_is_a_violation(expected: Any, is_violation: bool) -> None:
    """The invariant itself holds."""
    found = explore_all(counter.naive, refuses, expected=expected)
    assert (found.violating, found.schedules) == (14 * is_violation, 14)
    message = rf"process 2 raises LookupError: no more of it \({Path(__file__).name}:\d+\)"
    assert all(re.fullmatch(message, each.violation) for each in found.violations)


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
    ],
)
def test_wrong_arguments_are_refused(processes: list[Any], limits: Any, message: str) -> None:
    with pytest.raises(CannotExplore, match=message):
        explore_all(*processes, **limits)


def test_other_databases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    with pytest.raises(CannotExplore, match="is sqlite; only PostgreSQL"):
        run()


def test_an_invariant_may_assert_but_must_not_return_a_bool() -> None:
    def asserts(outcomes: list[Outcome]) -> None:
        assert counter.hits() == 2, "an update was lost"

    violations = run(invariant=asserts).violations
    assert len(violations) == 12
    assert {each.violation.splitlines()[0] for each in violations} == {"an update was lost"}
    with pytest.raises(CannotExplore, match="must return a str or None, not True"):
        run(invariant=lambda outcomes: True)


def lose_update(read: str, *writes: str) -> None:
    """Update both rows, and lose an update of another process."""
    with transaction.atomic():
        hits = counter.hits(read)
        for key in writes:
            sql("UPDATE interleave_counter SET hits = %s WHERE key = %s", hits + 1, key)


def test_the_first_violation_is_simplified() -> None:
    found = run(invariant=expect_hits(2), count_all=False)
    assert found.counterexample == run(invariant=expect_hits(2)).counterexample

    def run_similar(order: str) -> Schedule:
        return replay(order, naive, naive, invariant=expect_hits(2))

    assert shrink(run_similar("112212"), run_similar).order == "122211"


def test_an_exception_does_not_hide_a_lost_update() -> None:
    processes = [partial(lose_update, *"bab"), partial(lose_update, *"abab")]
    found = explore_all(*processes, invariant=expect_hits(2), expected=())
    assert 0 < found.raising < found.violating
    assert found.counterexample
    assert found.other
    raises = found.other.raises
    assert found.counterexample.raises is not raises
    orders = [each.order for each in found.violations if each.raises is raises]
    assert found.other.order == min(orders, key=rate_simplicity)
    with pytest.raises(AssertionError) as raised:
        found.assert_safe()
    message = str(raised.value)
    failing = found.violating - found.raising
    assert f"{failing} of {found.schedules} schedules violate the invariant, and in " in message
    assert f"in {found.raising} a process raises an unexpected exception" in message
    assert found.counterexample.violation in message
    assert found.other.violation in message


def lose_or_raise() -> None:
    """Lose an update, and raise if interrupted later, which the search tries first."""
    naive()
    seen = counter.hits("b")
    sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'b'")
    if counter.hits("b") != seen + 1:
        raise LookupError("somebody came between")


def test_after_an_exception_the_search_continues_to_a_lost_update() -> None:
    processes = [lose_or_raise, lose_or_raise]
    found = explore_all(*processes, invariant=expect_hits(2), expected=(), count_all=False)
    *raising, last = [each.raises for each in found.violations]
    assert {*raising} == {True}
    assert not last


def insert() -> None:
    sql("INSERT INTO interleave_counter VALUES (3, 'c', 0)")


def test_an_exception_one_after_the_other_may_be_expected(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="Or name the exception in `expected`") as raised:
        interleave(insert, invariant=anything)
    lines, first = inspect.getsourcelines(insert)
    assert f'counter.py", line {inspect.getsourcelines(sql)[1] + 2}, in sql' in str(raised.value)
    assert f'test_limits.py", line {first + len(lines) - 1}, in insert' in str(raised.value)
    assert "pginterleave/src" not in str(raised.value)
    interleave(insert, invariant=anything, expected=IntegrityError)


def test_a_counterexample_without_a_step_has_no_replay(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="Nothing was sent") as raised:
        interleave(lambda: 1, invariant=lambda outcomes: "no")
    assert "alone" not in str(raised.value)


def test_a_truncated_search_says_how_many_schedules_are_left(interleave: Interleave) -> None:
    counter.setup()
    left = r"max_schedules=5 reached\. About \d+ or more are left to run"
    with pytest.raises(NotProven, match=left):
        interleave(counter.select_for_update, processes=3, invariant=anything, max_schedules=5)
    (found,) = interleave.explorations
    assert found.left > 5
    assert interleave(naive, invariant=anything).left == 0
