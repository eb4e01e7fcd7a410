"""How many schedules violate the invariant, out of all: counts.json, which the pages show at once.

`manage.py race counts` writes the file, and `make prove` compares it with what it explores.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lab.exploring.jobs import Job
from pginterleave import Exploration, Options

FILE = Path(__file__).with_name("counts.json")
# Races whose processes, except one that edits, run the same function. Of the schedules that differ
# only by an exchange of these processes, one runs.
ALIKE = {
    "lost_update", "clobbered_edit", "deleted_meanwhile", "last_use", "limit_raised", "expiry",
    "last_link", "new_period", "two_quotas",
}  # fmt: skip


class Count(NamedTuple):
    """How many schedules violate the invariant, out of all.

    In `refused` of the `violating` schedules a process raised an exception.
    """

    violating: int
    schedules: int
    refused: int

    def __str__(self) -> str:
        return f"{self.violating:,} / {self.schedules:,}"

    def marked(self) -> str:
        """Return the counts with the lab's marks: ✓ right, ✗ wrong silently, ⊘ refused."""
        if self.wrong:
            return f"✗ {self}" + (f", ⊘ {self.refused:,}" if self.refused else "")
        return f"{'⊘' if self.refused else '✓'} {self}"

    @property
    def wrong(self) -> int:
        return self.violating - self.refused


def explore(job: Job) -> Exploration:
    """Run every schedule. One that the file does not have yet is given up earlier."""
    schedules, seconds = (100_000, 900) if str(job) in COUNTS else (20_000, 120)
    return job.race.explore(
        job.strategy,
        job.processes,
        options=Options(symmetric=job.processes == 3 and job.race.name in ALIKE),
        isolation_level=job.isolation,
        max_schedules=schedules,
        max_seconds=seconds,
    )


def read() -> dict[str, Count]:
    """Return the counts of each exploration, by its text: race/strategy/processes/level."""
    return {job: Count(**count) for job, count in json.loads(FILE.read_text()).items()}


def write(counts: Mapping[str, Count]) -> None:
    """Write a line for each exploration, so that a change of the file shows what has changed."""
    lines = [f"{json.dumps(job)}: {json.dumps(count._asdict())}" for job, count in counts.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


COUNTS = read()
