"""The result of an exploration: its counts, and every schedule with each step, for the pages."""

import json
import zlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from lab.exploring.jobs import Job
from lab.models import Exploration
from pginterleave.picture.cells import HowItEnds, verdict


@dataclass(kw_only=True)
class KeptSchedule:
    """A schedule as explorer.written() makes it.

    `raises` says whether the violation is an exception. `second_tries` are the steps of processes
    that tried again after all had ended.
    """

    order: str
    violation: str
    raises: bool
    steps: list[dict[str, Any]]
    second_tries: list[dict[str, Any]]
    outcomes: list[str]

    @property
    def whole(self) -> list[dict[str, Any]]:
        return [*self.steps, *self.second_tries]


class Ended(NamedTuple):
    order: str
    verdict: HowItEnds


@dataclass(kw_only=True)
class Explored:
    """The result of an exploration.

    `ran` schedules ran and are `kept`; they represent all `schedules`. In `refused` of the
    `violating` ones a process raised an exception; the others are wrong silently. `truncated` says
    which limit ended the search, or is empty. `counterexample` is the shortest schedule that
    violates the invariant, or empty. `initial` is what the rows contain before the first step.
    `orders` has the order of each schedule that ran, its violation and whether that is an
    exception.
    """

    job: Job
    schedules: int
    ran: int
    violating: int
    refused: int
    truncated: str
    counterexample: str
    initial: str
    seconds: float
    explored_at: str
    postgresql: str
    orders: list[tuple[str, str, bool]]
    kept: list[bytes]

    @property
    def proven(self) -> bool:
        """Whether the result is certain: some schedule violates, or all ran and none does."""
        return bool(self.violating or not self.truncated)

    @cached_property
    def ends(self) -> list[Ended]:
        return [
            Ended(order, verdict(violation, raises=raises))
            for order, violation, raises in self.orders
        ]

    def schedule(self, number: int) -> KeptSchedule:
        """Return the schedule with this number, from 0."""
        return KeptSchedule(**json.loads(zlib.decompress(self.kept[number])))

    def columns(self) -> dict[str, Any]:
        """Return the columns `summary` and `kept` of the table."""
        names = [each.name for each in fields(self) if each.name not in ("job", "kept")]
        return {"summary": {name: getattr(self, name) for name in names}, "kept": self.kept}


def compressed(schedule: KeptSchedule) -> bytes:
    return zlib.compress(json.dumps(short_names_first(vars(schedule))).encode())


def short_names_first(value: Any) -> Any:
    """Return JSON with the names of each object in the order in which a picture names columns."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(str(name)), str(name)))
        return {name: short_names_first(value[name]) for name in names}
    if isinstance(value, list | tuple):
        return [short_names_first(each) for each in value]
    return value


def explored_in(row: Exploration, job: Job) -> Explored | None:
    """Return the result of `job` in its row; None before the exploration is complete."""
    if row.summary is None:
        return None
    return Explored(job=job, kept=[*map(bytes, row.kept)], **row.summary)
