"""Reduction does not change the result of an exploration."""

from functools import partial
from typing import Any

import pytest

from lab.races import EVERY_RACE
from pginterleave import Options

# One race of each kind: a counter, an INSERT, a condition, several rows, and two tables.
EXHAUSTIVE = (
    "lost_update",
    "toctou",
    "expiry",
    "several_keys_one_locked",
    "write_skew",
    "late_commit",
)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "strategies", "processes"),
    [
        ("lost_update", ("naive", "select_for_update"), 2),
        *(
            pytest.param(
                name,
                tuple(EVERY_RACE[name].strategies),
                EVERY_RACE[name].counts[0],
                marks=pytest.mark.exhaustive,
            )
            for name in EXHAUSTIVE
        ),
        pytest.param("clobbered_edit", ("atomic_only",), 3, marks=pytest.mark.exhaustive),
    ],
)
def test_it_is_the_same(race: str, strategies: tuple[str, ...], processes: int) -> None:
    for name in strategies:
        explore = partial(EVERY_RACE[race].explore, EVERY_RACE[race].strategies[name])
        limits: dict[str, Any] = {"max_schedules": 20_000, "max_seconds": 600}
        every = explore(processes, options=Options(reduce=False), **limits)
        reduced = explore(processes, **limits)
        counts = (every.schedules, every.violating, every.truncated)
        assert counts == (len(every.orders), len(every.violations), "")
        assert (reduced.schedules, reduced.violating, reduced.truncated) == counts
        assert set(reduced.orders) <= set(every.orders)
        first, same = every.counterexample, reduced.counterexample
        assert (first and first.order) == (same and same.order)
