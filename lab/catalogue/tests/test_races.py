"""The catalogue of races against the tables of strategies, each count exact."""

from typing import Any

import pytest

from lab.catalogue import EVERY_RACE, RACES
from lab.catalogue.matrix import Cell
from lab.catalogue.race_definition import Race
from lab.scratch_database import scratch_database
from shorturl import creating, resolving
from shorturl.strategies import Strategy, Verdict

OPERATIONS: dict[str, dict[str, Strategy[Any]]] = {
    "creating": creating.STRATEGIES,
    "resolving": resolving.STRATEGIES,
}
every_strategy = pytest.mark.parametrize(
    ("operation", "name"),
    [(operation, name) for operation, table in OPERATIONS.items() for name in table],
)


def broken_in(cells: list[Cell], operation: str, name: str) -> set[str]:
    """Return the races that break a strategy."""
    return {
        cell.race
        for cell in cells
        if cell.strategy == name and cell.broken and RACES[cell.race].operation == operation
    }


@every_strategy
def test_the_tables_verdict_is_what_the_exploration_found(
    cells: list[Cell], operation: str, name: str
) -> None:
    broken = broken_in(cells, operation, name)
    found = Verdict.WRONG if broken else Verdict.RIGHT
    if broken == {"toctou_in_a_transaction"}:
        found = Verdict.RIGHT_ALONE
    assert OPERATIONS[operation][name].verdict is found, broken


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("race", EVERY_RACE.values(), ids=lambda race: race.name)
def test_a_verdict_is_the_same_when_statements_overlap(race: Race) -> None:
    """The COMMIT of a statement outside a transaction is a step of its own then."""
    with scratch_database():
        for strategy in race.strategies.values():
            plain, overlap = (
                race.explore(strategy, race.counts[0], reduce=True, split_autocommit=overlap)
                for overlap in (False, True)
            )
            assert overlap.complete
            assert overlap.schedules >= plain.schedules
            assert bool(overlap.violations) is bool(plain.violations), strategy.name


def test_every_search_was_complete(cells: list[Cell]) -> None:
    assert [cell for cell in cells if not cell.complete] == []
    assert {cell.race for cell in cells} == set(RACES)


# Measured with an explorer of another make, on the same statements.
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


@pytest.mark.parametrize(("race", "strategy"), KNOWN)
def test_a_count_that_is_known(cells: list[Cell], race: str, strategy: str) -> None:
    (cell,) = [cell for cell in cells if (cell.race, cell.strategy) == (race, strategy)]
    assert (cell.broken, cell.schedules) == KNOWN[race, strategy]


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
