"""A simpler schedule than the one that was found: fewer steps, or fewer switches."""

from collections.abc import Callable, Iterator
from itertools import groupby

from pginterleave.results import Schedule
from pginterleave.sampling import simplicity

MAX_RUNS = 200  # of schedules, for one that is simpler


def shrink(schedule: Schedule, run: Callable[[str], Schedule]) -> Schedule:
    """Return the simplest violating schedule that exchanging some of its steps leads to.

    `run` runs a schedule that is near an order, as not every order is possible.
    """
    tried = {schedule.order}
    simpler: Schedule | None = schedule
    while simpler:
        schedule, simpler = simpler, None
        for order in _simpler_orders(schedule.order):
            if order in tried or len(tried) > MAX_RUNS:
                continue
            tried.add(order)
            other = run(order)
            if other.violation and simplicity(other.order) < simplicity(schedule.order):
                simpler = other
                break
    return schedule


def _simpler_orders(order: str) -> Iterator[str]:
    """Return the orders in which two runs of steps of a process are one."""
    runs = ["".join(steps) for _, steps in groupby(order)]
    for first in range(len(runs)):
        for second in range(first + 2, len(runs)):
            if runs[first][0] == runs[second][0]:
                between = runs[first + 1 : second]
                rest = runs[second + 1 :]
                yield "".join([*runs[:first], runs[first], runs[second], *between, *rest])
                yield "".join([*runs[:first], *between, runs[first], runs[second], *rest])
                break
