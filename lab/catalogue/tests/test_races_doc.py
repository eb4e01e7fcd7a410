"""docs/races.md against the explorations: every number in it, and what it says of each race."""

import re
from collections.abc import Callable

import pytest
from django.db import transaction

from lab.catalogue import OPERATIONS, RACES
from lab.catalogue.creating_races import create, everybody_owns_a_link, no_links
from lab.catalogue.matrix import MatrixCell
from pginterleave import Exploration, explore
from project.docs import ROOT

TEXT = (ROOT / "docs" / "races.md").read_text()
ROWS = re.findall(r"^\| (\w+) \| (.+) \|$", TEXT, flags=re.MULTILINE)
PROSE = " ".join(re.sub(r"^\|.*$", "", TEXT, flags=re.MULTILINE).split())

# What it says of two processes, with the names that `numbers` gives to what it counts.
CLAIMS = [
    "`naive` resolves violate the invariant in {naive} of {naive_all} schedules",
    "`atomic_only` does so in {atomic_only} of {atomic_only_all}, more than without",
    "`forgiveness` holds alone ({forgiveness} of {forgiveness_all})",
    "`repeatable_read` has {repeatable_read_all} schedules where `select_for_update` has "
    "{select_for_update_all}",
    "({forgiveness_and_row} instead of {forgiveness_only} for `forgiveness` and `on_conflict`, "
    "{savepoint_and_row} instead of {savepoint_only} for `savepoint`)",
    "({on_conflict_and_row} instead of {on_conflict_only} for `forgiveness` and `on_conflict`",
]


def found(race: str, strategy: str, processes: int = 2) -> Exploration:
    result = RACES[race].explore(
        RACES[race].strategies[strategy],
        processes,
        reduce=processes > 2,
        max_schedules=100_000,
        max_seconds=900,
    )
    assert result.complete
    return result


def only_creates(strategy: str) -> int:
    """Count the schedules of two callers that do nothing but create in a transaction."""
    one = OPERATIONS["creating"][0][strategy]

    def in_a_transaction(process: int) -> Callable[[], object]:
        return transaction.atomic(create(one, process, ["same", f"own{process}"]))

    result = explore(
        [in_a_transaction(1), in_a_transaction(2)],
        setup=lambda: no_links(one),
        invariant=everybody_owns_a_link,
    )
    assert result.complete
    return result.schedules


def numbers() -> dict[str, int]:
    counted: dict[str, int] = {}
    for race, strategies in {
        "lost_update": ("naive", "atomic_only", "repeatable_read", "select_for_update"),
        "toctou": ("forgiveness",),
    }.items():
        for strategy in strategies:
            result = found(race, strategy)
            counted |= {strategy: len(result.violations), f"{strategy}_all": result.schedules}
    for strategy in ("forgiveness", "on_conflict", "savepoint"):
        result = found("toctou_in_a_transaction", strategy)
        counted[f"{strategy}_and_row"] = result.schedules
        counted[f"{strategy}_only"] = only_creates(strategy)
    return counted


@pytest.mark.django_db(transaction=True)
def test_every_number_is_what_an_exploration_counts() -> None:
    counted, rest = numbers(), PROSE
    for claim in CLAIMS:
        said = claim.format(**counted)
        assert said in PROSE
        rest = rest.replace(said, "")
    rest = rest.replace("--processes 3", "")  # which counts nothing
    assert re.findall(r"\d+", rest) == [], "a number without a claim in this file"


@pytest.mark.django_db(transaction=True)
def test_the_schedules_that_it_describes_are_those_that_break() -> None:
    naive = found("lost_update", "naive")
    assert {*naive.orders} - {each.order for each in naive.violations} == {"1122", "2211"}
    undone = found("clobbered_edit", "f_expression_full_save")
    assert ([each.order for each in undone.violations], undone.schedules) == (["121"], 3)
    assert not found("lost_update", "f_expression_full_save").violations
    for race, strategy in (("toctou", "get_or_create"), ("toctou_in_a_transaction", "forgiveness")):
        always = found(race, strategy)
        assert len(always.violations) == always.schedules


def test_what_it_says_of_whole_races(cells: list[MatrixCell]) -> None:
    def counts(race: str) -> dict[str, tuple[int, int]]:
        return {
            each.strategy: (each.violating, each.schedules) for each in cells if each.race == race
        }

    assert counts("custom_key").items() <= counts("toctou").items()
    undone = {
        strategy for strategy, (violating, _) in counts("deleted_meanwhile").items() if violating
    }
    assert undone == {"naive", "atomic_only", "f_expression_full_save"}
    for strategy in ("select_for_update", "update_returning"):
        assert counts("crossed_locks")[strategy][0] == 0


def three_processes() -> list[tuple[str, str, str]]:
    """Return race, strategy and count of each cell of the tables for three processes."""
    counted: list[tuple[str, str, str]] = []
    races: list[str] = []
    for first, rest in ROWS:
        columns = rest.split(" | ")
        if first in OPERATIONS:
            races = columns
        else:
            counted += [(race, first, cell) for race, cell in zip(races, columns, strict=True)]
    return counted


def test_the_tables_for_three_processes_show_every_strategy() -> None:
    shown = [(race, strategy) for race, strategy, _ in three_processes()]
    central = [race for race in RACES.values() if 3 in race.counts]
    expected = [(race.name, strategy) for race in central for strategy in race.strategies]
    assert sorted(shown) == sorted(expected)


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("race", "strategy", "count"), three_processes())
def test_a_count_with_three_processes(race: str, strategy: str, count: str) -> None:
    result = found(race, strategy, processes=3)
    shown = f"{result.violating} / {result.schedules}"
    assert (f"**{shown}**" if result.violations else shown) == count
