"""Partial-order reduction counts what exploring every schedule counts, for each race."""

import pytest

from lab.catalogue import EVERY_RACE
from lab.catalogue.race_definition import Race
from lab.scratch_database import scratch_database


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "strategy"),
    [
        ("toctou_in_a_transaction", "table_lock"),
        ("lost_update", "repeatable_read"),
    ],
)
def test_some_races(race: str, strategy: str) -> None:
    with scratch_database():
        compare(EVERY_RACE[race], strategy, 2)


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("race", EVERY_RACE)
def test_every_race(race: str) -> None:
    with scratch_database():
        for strategy in EVERY_RACE[race].strategies:
            compare(EVERY_RACE[race], strategy, EVERY_RACE[race].counts[0])


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "strategy"),
    [
        ("toctou", "savepoint"),
        ("toctou", "get_or_create"),
        ("toctou_in_a_transaction", "check_first"),
        ("toctou_in_a_transaction", "on_conflict"),
        ("lost_update", "compare_and_swap"),
        ("clobbered_edit", "atomic_only"),
    ],
)
def test_three_processes(race: str, strategy: str) -> None:
    with scratch_database():
        compare(EVERY_RACE[race], strategy, 3)


def compare(race: Race, strategy: str, processes: int) -> None:
    limits = {"max_schedules": 20_000, "max_seconds": 600}
    chosen = race.strategies[strategy]
    every = race.explore(chosen, processes, **limits)
    reduced = race.explore(chosen, processes, reduce=True, **limits)
    counts = (every.schedules, every.violating, every.truncated)
    assert counts == (len(every.orders), len(every.violations), "")
    assert (reduced.schedules, reduced.violating, reduced.truncated) == counts
    assert set(reduced.orders) <= set(every.orders)
    counterexamples = [
        each.counterexample and each.counterexample.order for each in (every, reduced)
    ]
    assert counterexamples[0] == counterexamples[1]
