"""A search that stops at the first violation, exceptions beside the invariant, and their places."""

import inspect
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from pginterleave import NotProven, Schedule, control
from pginterleave.pytest_plugin import Interleave
from pginterleave.running import shrink

from . import counter
from .counter import anything, counted, explored, naive, replayed, select_for_update, sql

pytestmark = pytest.mark.usefixtures("counter_table")


def first_a(*, then: str) -> None:
    """Lock both rows, and lose what another process has counted meanwhile."""
    with transaction.atomic():
        hits = counter.hits(then)
        for key in ("a", "b") if then == "b" else ("b", "a"):
            sql("UPDATE interleave_counter SET hits = %s WHERE key = %s", hits + 1, key)


def replayed_of_two(order: str, **options: Any) -> Schedule:
    """Run one schedule of two that count naively."""
    return replayed(order, naive, naive, **options)


def test_what_it_stops_at_is_made_simpler() -> None:
    everything = explored(naive, naive, invariant=counted(2))
    found = explored(naive, naive, invariant=counted(2), count_all=False)
    assert found.counterexample == everything.counterexample
    run = partial(replayed_of_two, invariant=counted(2))
    assert shrink(run("112212"), run).order == "122211"


def test_an_exception_does_not_hide_a_lost_update() -> None:
    processes = [partial(first_a, then="b"), partial(first_a, then="a")]
    found = explored(*processes, invariant=counted(2), expected=())
    assert 0 < found.raising < found.violating
    assert found.counterexample
    assert found.other
    assert found.counterexample.raises is not found.other.raises
    with pytest.raises(AssertionError) as raised:
        found.assert_safe()
    told = str(raised.value)
    failing = found.violating - found.raising
    assert f"{failing} of {found.schedules} schedules violate the invariant, and in " in told
    assert f"in {found.raising} a process raises what is not expected" in told
    assert found.counterexample.violation in told
    assert found.other.violation in told


def lose_or_raise() -> None:
    """Lose an update, and raise when interrupted later, which is where the search begins."""
    naive()
    seen = counter.hits("b")
    sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'b'")
    if counter.hits("b") != seen + 1:
        raise LookupError("somebody came between")


def test_after_an_exception_it_looks_further_for_a_lost_update() -> None:
    processes = [lose_or_raise, lose_or_raise]
    found = explored(*processes, invariant=counted(2), expected=(), count_all=False)
    assert {each.raises for each in found.violations} == {True, False}
    assert not found.violations[-1].raises
    assert len([each for each in found.violations if not each.raises]) == 1


def test_what_fails_one_after_the_other_is_no_race() -> None:
    found = explored(naive, naive, invariant=counted(3))
    with pytest.raises(
        AssertionError, match=r"^This fails one after the other, too: it is no race"
    ):
        found.assert_safe()
    found = explored(naive, naive, invariant=counted(2))
    with pytest.raises(AssertionError, match=r"^12 of 14 schedules violate the invariant"):
        found.assert_safe()


def insert() -> None:
    sql("INSERT INTO interleave_counter VALUES (3, 'c', 0)")


def test_an_exception_one_after_the_other_may_be_expected(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="Or name the exception in `expected`") as raised:
        interleave(insert, invariant=anything)
    lines, first = inspect.getsourcelines(insert)
    assert f'counter.py", line {inspect.getsourcelines(sql)[1] + 3}, in sql' in str(raised.value)
    assert f'test_first_violation.py", line {first + len(lines) - 1}, in insert' in str(
        raised.value
    )
    assert "pginterleave/src" not in str(raised.value)
    interleave(insert, invariant=anything, expected=IntegrityError)


def test_a_counterexample_without_a_step_has_no_replay(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="Nothing was sent") as raised:
        interleave(lambda: 1, invariant=lambda outcomes: "no")
    assert "alone:" not in str(raised.value)


def test_what_is_not_proven_says_what_is_left(interleave: Interleave) -> None:
    counter.setup()
    with pytest.raises(
        NotProven, match=r"max_schedules=5 reached\. About \d+ or more are left to run"
    ):
        interleave(select_for_update, processes=3, invariant=anything, max_schedules=5)
    (found,) = interleave.found
    assert found.left > 5
    assert interleave(naive, invariant=anything).left == 0


def test_a_step_has_longer_on_a_slow_machine() -> None:
    assert control.timeout_for(0.0001) == control.LEAST
    assert control.LEAST < control.timeout_for(0.001) < control.timeout_for(0.002) <= control.MOST
    assert control.timeout_for(1.0) == control.MOST
