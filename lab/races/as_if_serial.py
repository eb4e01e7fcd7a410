"""The verdict on each race without its invariant: every schedule has to end as a serial order."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.exploring.jobs import READ_COMMITTED, Job, counted
from lab.races import counts
from lab.races.race_definition import Process
from pginterleave import Exploration, explore

PROCESSES = 2
LIMITS = {"max_schedules": 2_000, "max_seconds": 60}


class Verdicts(NamedTuple):
    """What the invariant and the serial orders say of a race and a strategy: whether it is wrong.

    `example` is what no serial order gives, or "".
    """

    job: Job
    by_invariant: bool
    by_serial_orders: bool
    example: str

    @property
    def differ(self) -> bool:
        return self.by_invariant != self.by_serial_orders


BUSY = "has found nothing free"
NOTHING = {"delivering": [], "service_events": [], "rolling_up": 0}  # what such a process returns


class TwoTries:
    """A process of a race, which tries once more alone if it returns its second try, or nothing."""

    def __init__(self, first: Process, nothing: object) -> None:
        self.first, self.nothing = first, nothing
        self.second: Process | None = None

    def __call__(self) -> object:
        if self.second:
            return self.second()
        returned = self.first()
        if callable(returned):
            self.second = returned
        elif self.nothing is not None and returned == self.nothing:
            self.second = self.first
        return BUSY if self.second else returned


def verdicts() -> Iterator[Verdicts]:
    """Explore each race of two processes without its invariant, and compare with counts.json."""
    for job in counted():
        known = counts.COUNTS.get(f"{job}")
        if known and job.processes == PROCESSES and job.isolation == READ_COMMITTED:
            worst = explored(job, **LIMITS).counterexample
            example = worst.violation if worst else ""
            yield Verdicts(job, known.violating > 0, bool(example), example)


def explored(job: Job, **limits: Any) -> Exploration:
    """Explore a race without its invariant, up to the first violation.

    `limits` are those of pginterleave.explore().
    """
    race = job.race
    nothing = NOTHING.get(race.operation)
    processes = [TwoTries(each, nothing) for each in race.processes(job.strategy, job.processes)]

    def setup() -> None:
        race.setup(job.strategy)
        for each in processes:
            each.second = None

    with race.around():
        return explore(
            processes,
            setup=setup,
            expected=race.expected,
            try_again=lambda outcome: outcome.returned is BUSY,
            isolation_level=job.isolation,
            count_all=False,
            **limits,
        )


def summary(found: list[Verdicts]) -> str:
    wrong = [each.by_serial_orders for each in found if each.by_invariant]
    right = [not each.by_serial_orders for each in found if not each.by_invariant]
    return (
        f"Without an invariant, {sum(wrong)} of {len(wrong)} wrong pairs of race and strategy are "
        f"called wrong, and {sum(right)} of {len(right)} right ones are called right."
    )
