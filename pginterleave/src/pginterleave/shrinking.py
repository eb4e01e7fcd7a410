"""Looks near a violating schedule for a simpler one: with fewer steps, or fewer switches."""

from collections.abc import Callable, Iterator
from itertools import groupby

from pginterleave.results import Schedule
from pginterleave.sampling import simplicity, switches

MAX_RUNS = 200  # of schedules, for one that is simpler


def shrink(schedule: Schedule, run: Callable[[str], Schedule]) -> Schedule:
    """Return the simplest schedule of the same kind that exchanging some steps leads to.

    `run` runs a schedule that is near an order of processes, as not every order is possible.
    """
    tried = {_order(schedule)}
    simpler: Schedule | None = schedule
    while simpler:
        schedule, simpler = simpler, None
        order = _order(schedule)
        for near in [*_interrupted_once(order), *_simpler_orders(order)]:
            if near in tried or len(tried) > MAX_RUNS:
                continue
            tried.add(near)
            other = run(near)
            same_kind = other.violation and other.raises == schedule.raises
            if same_kind and simplicity(other.order) < simplicity(schedule.order):
                simpler = other
                break
    return schedule


def _order(schedule: Schedule) -> str:
    """Return the process of each step, without the victims of deadlocks."""
    return "".join(str(step.process) for step in schedule.timeline)


def _interrupted_once(order: str) -> Iterator[str]:
    """Return the orders in which one process is interrupted once, and the others are not at all."""
    processes = sorted(set(order))
    if switches(order) <= len(processes):
        return
    for first in processes:
        steps = order.count(first)
        others = "".join(each * order.count(each) for each in processes if each != first)
        for taken in range(1, steps):
            yield first * taken + others + first * (steps - taken)


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
