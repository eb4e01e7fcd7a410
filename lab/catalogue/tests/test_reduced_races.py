"""Neither reduction nor COMMIT as a step of its own changes what an exploration finds."""

from functools import partial

import pytest

from lab.catalogue import EVERY_RACE
from lab.scratch_database import scratch_database

EXHAUSTIVE = [
    *((name, tuple(race.strategies), race.counts[0]) for name, race in EVERY_RACE.items()),
    ("toctou", ("savepoint", "get_or_create"), 3),
    ("toctou_in_a_transaction", ("check_first", "on_conflict"), 3),
    ("lost_update", ("compare_and_swap",), 3),
    ("clobbered_edit", ("atomic_only",), 3),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "strategies", "processes"),
    [
        ("toctou_in_a_transaction", ("table_lock",), 2),
        ("lost_update", ("repeatable_read",), 2),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in EXHAUSTIVE),
    ],
)
def test_it_is_the_same(race: str, strategies: tuple[str, ...], processes: int) -> None:
    with scratch_database():
        for name in strategies:
            explore = partial(EVERY_RACE[race].explore, EVERY_RACE[race].strategies[name])
            limits = {"max_schedules": 20_000, "max_seconds": 600}
            every = explore(processes, **limits)
            reduced = explore(processes, reduce=True, **limits)
            counts = (every.schedules, every.violating, every.truncated)
            assert counts == (len(every.orders), len(every.violations), "")
            assert (reduced.schedules, reduced.violating, reduced.truncated) == counts
            assert set(reduced.orders) <= set(every.orders)
            first, same = every.counterexample, reduced.counterexample
            assert (first and first.order) == (same and same.order)
            if processes < 3:  # the COMMIT of a statement in autocommit as a step of its own
                split = explore(processes, reduce=True, split_autocommit=True)
                assert split.complete
                assert split.schedules >= every.schedules
                assert bool(split.violations) is bool(every.violations), name
