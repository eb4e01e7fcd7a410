"""The recordings: a file for each race, with the count and the schedules of each of its cells.

A cell is one exploration of a race: of one strategy, with a number of processes, at an isolation
level. A file has lines of JSON, compressed: first the counts by Cell.key, and then, in the same
order, a line for each cell. A schedule is stored as positions in a list of the cell's steps.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from lab.exceptions import NotRecorded
from lab.races.race import Race
from lab.recordings.cells import Cell, cells_of
from pginterleave.picture.cells import HowItEnds, judge_end
from pginterleave.picture.wording import RecordedStep

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Count:
    """How many schedules violate the invariant, out of all.

    `refused` is the number of violating schedules in which a process raised an exception. With
    `truncated` a limit has ended the exploration, and the numbers are of the schedules before that.
    `source` is the digest of the strategy's file.
    """

    violating: int
    schedules: int
    refused: int
    truncated: bool
    source: str

    def __str__(self) -> str:
        return "…" if self.truncated else f"{self.violating:,} / {self.schedules:,}"

    def format_with_mark(self) -> str:
        """Return the counts with the lab's mark: ✓ right, ✗ silently wrong, ⊘ refused."""
        if self.truncated:
            return str(self)
        if self.wrong:
            return f"✗ {self}" + (f", ⊘ {self.refused:,}" if self.refused else "")
        return f"{'⊘' if self.refused else '✓'} {self}"

    @property
    def wrong(self) -> int:
        """The violating schedules without an exception."""
        return self.violating - self.refused


@dataclass(kw_only=True)
class RecordedSchedule:
    """A schedule that has run.

    `raises` says whether the violation is an exception. `outcomes` are the exceptions that the
    processes raised, or "". A step has the fields of pginterleave's record_steps(), and its
    `line` in the strategy's file (0: in another file). The steps of second tries are the last ones;
    the first step of each second try has the field `alone`.
    """

    order: str
    violation: str
    raises: bool
    outcomes: list[str]
    all_steps: list[RecordedStep]

    @property
    def steps(self) -> list[RecordedStep]:
        """The steps without those of second tries."""
        return list(takewhile(lambda step: "alone" not in step, self.all_steps))


class ScheduleEnd(NamedTuple):
    """The order of a schedule's steps, and how it ends."""

    order: str
    verdict: HowItEnds


@dataclass(kw_only=True)
class Recording:
    """A cell with its schedules: all of them, or the first ones by the number of preemptions.

    `counterexample` is the order of the shortest schedule that violates the invariant, or "".
    `initial` describes the rows before the first step.
    """

    cell: Cell
    count: Count
    counterexample: str
    initial: str
    steps: list[RecordedStep]
    schedules: list[dict[str, Any]]

    def convert_to_json(self) -> dict[str, Any]:
        """Return the fields that are the cell's line in the file; the first line has the count."""
        names = ("counterexample", "initial", "steps", "schedules")
        return {name: getattr(self, name) for name in names}

    @property
    def is_complete(self) -> bool:
        """Whether all schedules are recorded."""
        return not self.count.truncated and len(self.schedules) == self.count.schedules

    @cached_property
    def ends(self) -> list[ScheduleEnd]:
        """How each schedule ends."""
        ends = []
        for schedule in self.schedules:
            verdict = judge_end(schedule["violation"], raises=schedule["raises"])
            ends.append(ScheduleEnd(schedule["order"], verdict))
        return ends

    def schedule(self, number: int) -> RecordedSchedule:
        """Return the schedule with this number, from 0."""
        fields = dict(self.schedules[number])
        positions = fields.pop("steps")
        return RecordedSchedule(**fields, all_steps=[self.steps[index] for index in positions])


def read_counts(race: Race) -> dict[str, Count]:
    """Return the counts of a race's recorded cells, by Cell.key; none if nothing is recorded."""
    counts = json.loads(next(_read_lines(race), "{}"))
    return {key: Count(**count) for key, count in counts.items()}


def read_recording(cell: Cell) -> Recording:
    """Return the recording of a cell; raise NotRecorded, which names the command to record it."""
    lines = _read_lines(cell.race)
    counts = json.loads(next(lines, "{}"))  # the first line; then a line for each of the counts
    for key, line in zip(counts, lines, strict=False):
        if key == cell.key:
            return Recording(cell=cell, count=Count(**counts[key]), **json.loads(line))
    raise NotRecorded(f"{cell} is not recorded: {cell.command}")


def write_recordings(race: Race, recordings: Mapping[str, Recording]) -> None:
    """Write recordings, given by Cell.key, into the race's file; its other cells stay.

    The same recordings make the same bytes.
    """
    already_recorded = read_counts(race)
    merged = {}
    for cell in cells_of(race):
        if cell.key in recordings:
            merged[cell.key] = recordings[cell.key]
        elif cell.key in already_recorded:
            merged[cell.key] = read_recording(cell)
    counts = {key: asdict(recording.count) for key, recording in merged.items()}
    lines = [counts, *(recording.convert_to_json() for recording in merged.values())]
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    part = path_of(race).with_suffix(".part")  # a page may read the file meanwhile
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    part.replace(path_of(race))


def path_of(race: Race) -> Path:
    return FOLDER / f"{race.name}.json.gz"


def _read_lines(race: Race) -> Iterator[str]:
    """Yield the lines of a race's file; none without a file."""
    with suppress(FileNotFoundError), gzip.open(path_of(race), "rt", encoding="utf-8") as file:
        yield from file
