"""The recordings are complete, up to date, and what an exploration finds again.

A cell is a race with a strategy, a number of processes and an isolation level.
"""

import re
from pathlib import Path

import pytest

from lab.conftest import list_schedules, read_recorded, run_race
from lab.exceptions import NotRecorded
from lab.management.commands import race as command
from lab.races import EVERY_RACE
from lab.races.race import Race
from lab.recordings import recorder, recording
from lab.recordings.cells import Cell, cells_of, find_cell
from lab.recordings.recording import FOLDER, path_of, read_counts, read_recording
from lab.recordings.source import hash_source

CELLS = [cell for race in EVERY_RACE.values() for cell in cells_of(race)]
# The other cells are explored only by the tests that are marked exhaustive.
QUICK = "lost_update/naive/2/read-committed"


def test_every_cell_is_recorded_from_the_source_of_today() -> None:
    commands = set()
    for race in EVERY_RACE.values():
        counts = read_counts(race)
        for cell in cells_of(race):
            if cell.key not in counts or counts[cell.key].source != hash_source(cell.strategy):
                commands.add(cell.command)
    assert not commands, f"Record again: {'; '.join(sorted(commands))}"


def test_no_other_cell_is_recorded_and_the_files_are_small() -> None:
    files = sorted(FOLDER.glob("*.json.gz"))
    assert files == sorted(map(path_of, EVERY_RACE.values()))
    for race in EVERY_RACE.values():
        assert list(read_counts(race)) == [cell.key for cell in cells_of(race)]
    assert sum(file.stat().st_size for file in files) < 2_000_000


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, marks=[] if str(cell) == QUICK else pytest.mark.exhaustive)
        for cell in CELLS
    ],
    ids=str,
)
def test_an_exploration_finds_what_is_recorded(cell: Cell) -> None:
    recorded = read_recording(cell)
    assert recorder.record_cell(cell, is_counted=not recorded.count.truncated) == recorded


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("race", EVERY_RACE.values(), ids=lambda race: race.name)
def test_a_schedule_of_each_strategy_ends_as_recorded(race: Race) -> None:
    """One with each kind of exception and with each second try; a violation, if there is one."""
    for name, strategy in race.strategies.items():
        recorded = read_recorded(f"{race.name}/{name}")
        kinds = {}
        for as_recorded in sorted(list_schedules(recorded), key=lambda end: bool(end.violation)):
            errors = {outcome.partition(":")[0] for outcome in as_recorded.outcomes}
            tries = sum("alone" in step for step in as_recorded.all_steps)
            kinds[tries, *sorted(errors)] = as_recorded
        for as_recorded in kinds.values():
            schedule = race.run(strategy, recorded.cell.processes, as_recorded.order)
            assert schedule.violation == as_recorded.violation, name
            rows = str(race.rows()), as_recorded.all_steps[-1]["observed"]
            observed, as_observed = (re.sub(r"\w{7} →", "random key →", text) for text in rows)
            assert observed == as_observed, name


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_recorded_counts_are_those_of_the_recorded_schedules(cell: Cell) -> None:
    recorded = read_recording(cell)
    assert [end.order for end in recorded.ends] == sorted({end.order for end in recorded.ends})
    if not recorded.is_complete:
        assert len(recorded.schedules) == recorder.MAX_OF_MANY <= recorded.count.schedules
        return
    violating = [schedule for schedule in list_schedules(recorded) if schedule.violation]
    assert len(violating) == recorded.count.violating
    assert sum(schedule.raises for schedule in violating) == recorded.count.refused
    assert bool(violating) is bool(recorded.counterexample)


@pytest.mark.usefixtures("in_this_database")
def test_the_command_records_a_race_or_a_strategy_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = (FOLDER / "collision.json.gz").read_bytes()
    monkeypatch.setattr(recording, "FOLDER", tmp_path)  # which is empty
    with pytest.raises(NotRecorded, match=r": manage\.py race record collision naive$"):
        read_recording(find_cell("collision", "naive"))
    assert "collision/naive/1/read-committed: 1 / 1" in run_race("record", "collision")
    assert (tmp_path / "collision.json.gz").read_bytes() == recorded
    run_race("record", "collision", "naive")
    assert (tmp_path / "collision.json.gz").read_bytes() == recorded


@pytest.mark.usefixtures("in_this_database")
def test_a_cell_with_too_many_schedules_is_counted_again_only_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To count its schedules takes long, so its strategy has to be named for it."""
    counted = []

    def record_cell(cell: Cell, *, is_counted: bool) -> recording.Recording:
        if is_counted:
            counted.append(cell.key)
        return read_recording(cell)

    monkeypatch.setattr(recorder, "record_cell", record_cell)
    monkeypatch.setattr(command, "write_recordings", lambda *_: None)
    run_race("record", "toctou")
    too_many = "advisory_lock/3/read-committed"
    assert counted == [cell.key for cell in cells_of(EVERY_RACE["toctou"]) if cell.key != too_many]
    counted.clear()
    run_race("record", "toctou", "advisory_lock")
    assert counted == ["advisory_lock/2/read-committed", too_many]
