"""What the recordings say of every race: the verdicts are right, and violations are explained."""

import re

import pytest

from lab.conftest import list_schedules, read_recorded
from lab.pages.schedules import make_picture
from lab.races import EVERY_RACE, OPERATIONS
from lab.recordings.cells import LEVELS, READ_COMMITTED, Cell, cells_of, find_cell
from lab.recordings.recording import Count, read_counts, read_recording
from pginterleave.picture.layout import draw_for_screens
from project.docs import ROOT
from shorturl.strategies.table import Verdict

# A strategy that only these races show as wrong is right for links without a limit or an expiry.
CONDITIONS = {"last_use", "limit_raised", "expiry"}


def read_count(race: str, strategy: str, level: str = READ_COMMITTED) -> Count:
    cell = find_cell(race, strategy, level=level)
    return read_counts(cell.race)[cell.key]


def test_the_tables_for_each_isolation_level_have_the_recorded_counts() -> None:
    text = (ROOT / "docs" / "isolation-levels.md").read_text()
    for race in ("lost_update", "write_skew"):
        rows = text.split(f"\n| {race} | ")[1].split("\n\n")[0]
        documented = dict(re.findall(r"^\| (\w+) \| (.+) \|$", rows, re.MULTILINE))
        assert {*EVERY_RACE[race].strategies} - {*documented} <= {"in_memory"}
        for strategy, cells in documented.items():
            counts = [read_count(race, strategy, level) for level in LEVELS]
            assert cells.split(" | ") == [
                f"**{number}**" if number.violating else str(number) for number in counts
            ]


def judge(violated: set[str]) -> Verdict:
    """Return the verdict on a strategy that violates these races."""
    if not violated:
        return Verdict.RIGHT
    if all(race.endswith("_in_a_transaction") for race in violated):
        return Verdict.RIGHT_ALONE
    return Verdict.RIGHT_WITHOUT_CONDITION if violated <= CONDITIONS else Verdict.WRONG


def test_each_strategy_has_the_verdict_that_its_races_show() -> None:
    for operation in OPERATIONS.values():
        for name, strategy in operation.strategies.items():
            violated = {
                race.name
                for race in operation.races
                if name in race.strategies and read_count(race.name, name).violating
            }
            assert strategy.verdict is judge(violated), (operation.title, name, violated)


# The rest of 800 pixels below the title and the list of schedules, in the units of a picture.
MAX_HEIGHT = 590
# Right strategies violate nothing, and stricter levels have the same few violations.
DRAWN = [
    cell
    for race in EVERY_RACE.values()
    for cell in cells_of(race)
    if cell.processes == min(race.process_counts) and cell.level == READ_COMMITTED
    if cell.strategy.verdict is not Verdict.RIGHT
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("cell", DRAWN, ids=str)
def test_every_violation_is_explained_on_one_screen(cell: Cell) -> None:
    recording = read_recording(cell)
    for schedule in list_schedules(recording):
        picture = make_picture(recording, schedule, len(schedule.steps))
        if schedule.violation:
            assert picture.conflicts, schedule.order
        wide, _narrow = draw_for_screens(picture)
        # A second try is below the schedule, and has to be scrolled to.
        has_second_try = len(schedule.all_steps) > len(schedule.steps)
        height = wide.ends[len(schedule.steps)] if has_second_try else wide.height
        assert height < MAX_HEIGHT, schedule.order


def test_the_museum_violates_silently_where_its_story_says_so() -> None:
    for cell, violation in {
        "no_unique_constraint/as_found": "2 links are called sale",
        "null_in_a_unique_key/as_found": "2 links are called sale",
        "bare_save/mended_by_half": "the edit of the target is undone",
        "deactivated_account/as_found": "the account is active again",
        "row_lock_on_no_row/as_found": "2 rows for one hour",
        "limited_use/as_found": "redeemed 2 times, not 1",
    }.items():
        violations = {schedule.violation for schedule in list_schedules(read_recorded(cell))}
        assert violations - {""} == {violation}, cell
