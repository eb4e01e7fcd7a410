"""Partial-order reduction counts what exploring every schedule counts, for each race."""

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
            every, reduced = (
                EVERY_RACE[race].explore(
                    EVERY_RACE[race].strategies[name],
                    processes,
                    reduce=reduce,
                    max_schedules=20_000,
                    max_seconds=600,
                )
                for reduce in (False, True)
            )
            counts = (every.schedules, every.violating, every.truncated)
            assert counts == (len(every.orders), len(every.violations), "")
            assert (reduced.schedules, reduced.violating, reduced.truncated) == counts
            assert set(reduced.orders) <= set(every.orders)
            shortest = [
                each.counterexample and each.counterexample.order for each in (every, reduced)
            ]
            assert shortest[0] == shortest[1]
