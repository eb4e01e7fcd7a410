"""The catalogue of races against the tables of strategies and docs/races.md."""

import re
import time
from typing import Any

import pytest

from lab.catalogue import OPERATIONS, RACES, matrix
from lab.catalogue.matrix import MatrixCell
from lab.catalogue.race_definition import worst_case
from lab.scratch_database import scratch_database
from project.docs import ROOT
from shorturl.operations import STRATEGIES
from shorturl.strategies import Verdict
from shorturl.strategies.creating import timestamp_key

TEXT = (ROOT / "docs" / "races.md").read_text()
THREE = TEXT.split("\n## With three processes\n")[1]
ROWS = re.findall(r"^\| (\w+) \| (.+) \|$", THREE, flags=re.MULTILINE)
PROSE = " ".join(re.sub(r"^\|.*$|^```text$[^`]*^```$", "", TEXT, flags=re.MULTILINE).split())
CONDITIONS = {"last_use", "limit_raised", "expiry"}

Cells = dict[tuple[str, str], MatrixCell]


@pytest.mark.exhaustive
def test_the_matrix_is_what_the_tables_and_the_document_say(
    django_db_setup: None, django_db_blocker: Any
) -> None:
    """All explorations with two processes, once: one test, as each process would do them again."""
    with django_db_blocker.unblock(), scratch_database():
        found = matrix.cells(max_seconds=600, max_schedules=100_000)
        cells = {(each.race, each.strategy): each for each in found}
    the_verdicts_are_right(cells)
    the_document_shows_the_matrix(cells)
    every_number_is_counted(cells)
    what_is_said_of_whole_races_holds(cells)


def the_verdicts_are_right(cells: Cells) -> None:
    """A strategy is wrong, or right alone, if and only if some race says so."""
    for operation, strategies in STRATEGIES.items():
        names = {race.name for race in OPERATIONS[operation].races}
        for name, strategy in strategies.items():
            violated = {
                cell.race
                for cell in cells.values()
                if cell.strategy == name and cell.race in names and cell.violating
            }
            found = Verdict.WRONG if violated else Verdict.RIGHT
            if violated and all(race.endswith("_in_a_transaction") for race in violated):
                found = Verdict.RIGHT_ALONE
            if violated and violated <= CONDITIONS:
                found = Verdict.RIGHT_WITHOUT_CONDITION
            assert strategy.verdict is found, (operation, name, violated)


def the_document_shows_the_matrix(cells: Cells) -> None:
    """Each count is exact, and none of them is of a truncated search."""
    shown = matrix.markdown([*cells.values()])
    block = f'shown("manage.py race matrix")) ]]] -->\n{shown}\n<!-- [[[end]]] -->'
    assert block in (ROOT / "docs" / "races.md").read_text(), "run `make docs`"
    assert "…" not in shown


def every_number_is_counted(cells: Cells) -> None:
    def count(race: str, strategy: str) -> str:
        return str(cells[race, strategy]).replace("/", "of")

    rest = PROSE.replace("--processes 3", "")  # which counts nothing
    for claim in (
        f"violates the invariant of `lost_update` in {count('lost_update', 'naive')} schedules",
        f"`atomic_only` does so in {count('lost_update', 'atomic_only')}, the same ones",
        f"4 of 6 for `naive`, and {count('lost_update', 'atomic_only')} for `atomic_only`",
        "`update_returning`, in 0 of 2 schedules counted like that, ends in an error in 2 of 4",
        f"undoes the edit in the {count('clobbered_edit', 'f_expression_full_save')} schedules",
        f"`forgiveness` holds alone ({count('toctou', 'forgiveness')})",
        f"`repeatable_read` has {cells['lost_update', 'repeatable_read'].schedules} schedules "
        f"where `select_for_update` has {cells['lost_update', 'select_for_update'].schedules}",
    ):
        assert claim in rest
        rest = rest.replace(claim, "")
    assert re.findall(r"\d+", rest) == [], "a number without a claim in this test"


def what_is_said_of_whole_races_holds(cells: Cells) -> None:
    for cell in ("toctou", "get_or_create"), ("toctou_in_a_transaction", "forgiveness"):
        assert cells[cell].violating == cells[cell].schedules
    for strategy in RACES["custom_key"].strategies:
        assert str(cells["custom_key", strategy]) == str(cells["toctou", strategy])
    assert {
        cell.strategy
        for cell in cells.values()
        if cell.race == "deleted_meanwhile" and cell.violating
    } == {"naive", "atomic_only", "f_expression_full_save", "in_memory"}
    for race in "lost_update", "clobbered_edit", "crossed_locks":
        assert cells[race, "in_memory"].violating == cells[race, "in_memory"].schedules


def test_the_clock_stands_still_for_an_exploration_only() -> None:
    with worst_case():
        assert timestamp_key.time_ns() == timestamp_key.time_ns()  # type: ignore[attr-defined]
    assert timestamp_key.time_ns is time.time_ns  # type: ignore[attr-defined]


MARATHON = {
    ("toctou", "advisory_lock"),
    ("same_target_in_a_transaction", "advisory_lock"),
    ("toctou", "permuted_sequence"),
    ("lost_update", "compare_and_swap"),
    ("lost_update", "repeatable_read"),
    ("last_use", "compare_and_swap"),
    ("last_link", "row_lock"),
    ("given_back", "count_then_insert"),
    ("given_back", "row_lock"),
    ("two_quotas", "conditional_update"),
}
# Races whose processes, but for one that edits, are one function: of the schedules that are the
# same after an exchange of them, one runs.
ALIKE = {"lost_update", "clobbered_edit", "deleted_meanwhile", "last_use", "limit_raised", "expiry"}
MARATHON_RACES = {"toctou_in_a_transaction", "repeated_request", "killed_before_the_answer"}
NOT_ENDED, TAKES_NO_PART = "…", "–"


def three_processes() -> list[Any]:
    """Return race, strategy and count of each cell of the tables for three processes."""
    cases: list[Any] = []
    races: list[str] = []
    for first, rest in ROWS:
        if first in OPERATIONS:
            races = rest.split(" | ")
            continue
        for race, count in zip(races, rest.split(" | "), strict=True):
            if count == TAKES_NO_PART:
                continue
            long = race in MARATHON_RACES or (race, first) in MARATHON
            marks = [pytest.mark.marathon] if long else []
            cases.append(pytest.param(race, first, count, marks=marks))
    return cases


def test_the_tables_for_three_processes_show_every_strategy() -> None:
    shown = [each.values[:2] for each in three_processes()]
    races = {race for race, _ in shown}
    assert races >= {name for name, race in RACES.items() if 3 in race.counts}
    expected = [(race, strategy) for race in races for strategy in RACES[race].strategies]
    assert sorted(shown) == sorted(expected)


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "strategy", "count"),
    [case for case in three_processes() if case.values[2] != NOT_ENDED],
)
def test_a_count_with_three_processes(race: str, strategy: str, count: str) -> None:
    limits = {"max_schedules": 100_000, "max_seconds": 900}
    found = RACES[race].strategies[strategy]
    result = RACES[race].explore(found, 3, reduce=True, symmetric=race in ALIKE, **limits)
    assert result.complete
    shown = f"{result.violating} / {result.schedules}"
    assert (f"**{shown}**" if result.violations else shown) == count
