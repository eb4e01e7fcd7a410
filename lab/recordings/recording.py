"""The recordings: of each race a file with its counts, and each cell with its schedules.

A file has lines of JSON, compressed. The first line has the counts of all cells, by Cell.key; each
other line is one cell, in the order of the first. Of a schedule a cell has the steps as their
positions in the list of the cell's different steps.
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
from pginterleave.picture.cells import HowItEnds, verdict

FOLDER = Path(__file__).parent
Step = dict[str, Any]


@dataclass(frozen=True)
class Count:
    """How many schedules violate the invariant, out of all, and the digest of the strategy.

    In `refused` of the `violating` schedules a process raised an exception. If a limit ended the
    search, it is `truncated`, and the numbers are of the schedules before.
    """

    violating: int
    schedules: int
    refused: int
    truncated: bool
    source: str

    def __str__(self) -> str:
        return "…" if self.truncated else f"{self.violating:,} / {self.schedules:,}"

    def marked(self) -> str:
        """Return the counts with the lab's marks: ✓ right, ✗ wrong silently, ⊘ refused."""
        if self.truncated:
            return str(self)
        if self.wrong:
            return f"✗ {self}" + (f", ⊘ {self.refused:,}" if self.refused else "")
        return f"{'⊘' if self.refused else '✓'} {self}"

    @property
    def wrong(self) -> int:
        return self.violating - self.refused


@dataclass(kw_only=True)
class RecordedSchedule:
    """A schedule that has run.

    `raises` says whether the violation is an exception. An outcome is the exception that the
    process raised, or "". A step has the fields of pginterleave's recorded_steps(), and its `line`
    in the strategy's file (0: in another file). The steps of processes that tried again after all
    had ended follow the others: the first of each has the field `alone`.
    """

    order: str
    violation: str
    raises: bool
    outcomes: list[str]
    whole: list[Step]

    @property
    def steps(self) -> list[Step]:
        """The steps up to the one at which the first process tries again after all have ended."""
        return list(takewhile(lambda step: "alone" not in step, self.whole))


class Ended(NamedTuple):
    order: str
    verdict: HowItEnds


@dataclass(kw_only=True)
class Recording:
    """A cell with its schedules: all of them, or the first ones by the number of preemptions.

    `counterexample` is the shortest schedule that violates the invariant, or empty. `initial` is
    what the rows contain before the first step.
    """

    cell: Cell
    count: Count
    counterexample: str
    initial: str
    steps: list[Step]
    schedules: list[dict[str, Any]]

    def content(self) -> dict[str, Any]:
        """Return what a file has of the cell, besides the count."""
        names = ("counterexample", "initial", "steps", "schedules")
        return {name: getattr(self, name) for name in names}

    @property
    def is_complete(self) -> bool:
        return not self.count.truncated and len(self.schedules) == self.count.schedules

    @cached_property
    def ends(self) -> list[Ended]:
        return [
            Ended(schedule["order"], verdict(schedule["violation"], raises=schedule["raises"]))
            for schedule in self.schedules
        ]

    def schedule(self, number: int) -> RecordedSchedule:
        """Return the schedule with this number, from 0."""
        recorded = dict(self.schedules[number])
        positions = recorded.pop("steps")
        return RecordedSchedule(**recorded, whole=[self.steps[position] for position in positions])


def read_counts(race: Race) -> dict[str, Count]:
    """Return the counts of a race's recorded cells, by Cell.key; none if nothing is recorded."""
    counts = json.loads(next(_lines(race), "{}"))
    return {key: Count(**count) for key, count in counts.items()}


def read(cell: Cell) -> Recording:
    """Return the recording of a cell; raise NotRecorded, which names the command to record it."""
    lines = _lines(cell.race)
    counts = json.loads(next(lines, "{}"))
    for key, line in zip(counts, lines, strict=False):
        if key == cell.key:
            return Recording(cell=cell, count=Count(**counts[key]), **json.loads(line))
    raise NotRecorded(f"{cell} is not recorded: {cell.command}")


def write(race: Race, recordings: Mapping[str, Recording]) -> None:
    """Write the recordings of some cells, by Cell.key; those of the race's other cells stay.

    The same recordings make the same bytes.
    """
    before = read_counts(race)
    whole = {
        cell.key: recordings.get(cell.key) or read(cell)
        for cell in cells_of(race)
        if cell.key in recordings or cell.key in before
    }
    counts = {key: asdict(recording.count) for key, recording in whole.items()}
    lines = [counts, *(recording.content() for recording in whole.values())]
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    part = path_of(race).with_suffix(".part")  # a page may read the file meanwhile
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    part.replace(path_of(race))


def path_of(race: Race) -> Path:
    return FOLDER / f"{race.name}.json.gz"


def _lines(race: Race) -> Iterator[str]:
    """Yield the lines of a race's file: none if there is no file."""
    with suppress(FileNotFoundError), gzip.open(path_of(race), "rt", encoding="utf-8") as file:
        yield from file
