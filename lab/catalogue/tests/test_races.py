"""The catalogue of races against the tables of strategies, each count exact."""

import time

import pytest

from lab.catalogue import EVERY_RACE, OPERATIONS, RACES
from lab.catalogue.matrix import MatrixCell
from lab.catalogue.race_definition import Race, stopped_clock
from lab.scratch_database import scratch_database
from shorturl.creating import timestamp_key
from shorturl.strategies import Verdict


def test_the_tables_verdicts_are_what_the_explorations_found(cells: list[MatrixCell]) -> None:
    """A strategy is wrong, or right alone, if and only if some race says so."""
    for operation, (strategies, races) in OPERATIONS.items():
        names = {race.name for race in races}
        for name, strategy in strategies.items():
            violated = {
                cell.race
                for cell in cells
                if cell.strategy == name and cell.race in names and cell.violating
            }
            found = Verdict.WRONG if violated else Verdict.RIGHT
            if violated == {"toctou_in_a_transaction"}:
                found = Verdict.RIGHT_ALONE
            assert strategy.verdict is found, (operation, name, violated)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("race", EVERY_RACE.values(), ids=lambda race: race.name)
def test_a_verdict_is_the_same_with_commit_as_a_step_of_its_own(race: Race) -> None:
    """The COMMIT of a statement outside a transaction is a step of its own then."""
    with scratch_database():
        for strategy in race.strategies.values():
            plain, split = (
                race.explore(strategy, race.counts[0], reduce=True, split_autocommit=split)
                for split in (False, True)
            )
            assert split.complete
            assert split.schedules >= plain.schedules
            assert bool(split.violations) is bool(plain.violations), strategy.name


def test_every_search_was_complete(cells: list[MatrixCell]) -> None:
    assert [cell for cell in cells if not cell.complete] == []
    assert {cell.race for cell in cells} == set(RACES)


# Measured with another explorer, on the same statements.
KNOWN = {
    ("lost_update", "naive"): (4, 6),
    ("lost_update", "atomic_only"): (12, 14),
    ("lost_update", "select_for_update"): (0, 6),
    ("lost_update", "f_expression"): (0, 6),
    ("lost_update", "update_returning"): (0, 2),
    ("lost_update", "compare_and_swap"): (0, 6),
    ("clobbered_edit", "f_expression_full_save"): (1, 3),
    ("clobbered_edit", "f_expression"): (0, 3),
    ("toctou", "naive"): (2, 2),
    ("toctou", "check_first"): (4, 6),
    ("toctou", "table_lock"): (0, 8),
    ("toctou", "forgiveness"): (0, 2),
    ("toctou", "savepoint"): (0, 4),
    ("toctou", "on_conflict"): (0, 2),
    ("toctou", "get_or_create"): (14, 14),
}


def test_the_counts_that_are_known(cells: list[MatrixCell]) -> None:
    found = {(each.race, each.strategy): (each.violating, each.schedules) for each in cells}
    assert {known: found[known] for known in KNOWN} == KNOWN


THREE = {
    ("lost_update", "naive"): (84, 90),
    ("lost_update", "select_for_update"): (0, 72),
    ("lost_update", "f_expression"): (0, 90),
    ("lost_update", "update_returning"): (0, 6),
    ("clobbered_edit", "f_expression_full_save"): (14, 30),
    ("clobbered_edit", "f_expression"): (0, 30),
    ("toctou", "naive"): (6, 6),
    ("toctou", "check_first"): (84, 144),
    ("toctou", "on_conflict"): (0, 18),
    ("toctou_in_a_transaction", "forgiveness"): (90, 90),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("race", "strategy"), THREE)
def test_three_processes(race: str, strategy: str) -> None:
    result = RACES[race].explore(RACES[race].strategies[strategy], 3)
    assert result.complete
    assert (len(result.violations), result.schedules) == THREE[race, strategy]


@pytest.mark.django_db(transaction=True)
def test_a_schedule_is_the_same_timeline_every_time() -> None:
    race = RACES["lost_update"]
    naive = race.strategies["naive"]
    assert len({race.run(naive, 2, "1212").draw() for _ in range(10)}) == 1


def test_the_clock_stands_still_for_an_exploration_only() -> None:
    with stopped_clock():
        assert timestamp_key.time_ns() == timestamp_key.time_ns()  # type: ignore[attr-defined]
    assert timestamp_key.time_ns is time.time_ns  # type: ignore[attr-defined]
