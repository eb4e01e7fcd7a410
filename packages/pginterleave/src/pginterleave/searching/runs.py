"""Runs the schedules that a search chooses, and makes a counterexample simpler."""

import itertools
import math
import time
from collections.abc import Callable, Iterator

from pginterleave.choices import process_of
from pginterleave.explorer_errors import NoOtherVictim, NotDeterministic
from pginterleave.processes.scheduler import Scheduler
from pginterleave.results import AT_FIRST, Schedule
from pginterleave.searching.search import Search
from pginterleave.searching.state_graph import Ending
from pginterleave.sql.dependent_steps import Effect

MAX_RUNS_AFTER_ERROR = 100  # schedules to run after one that raises, to find a broken invariant
MAX_RUNS_TO_SHRINK = 200  # of schedules, to find a simpler one


class Run:
    """The schedules that have run: their `orders`, and the `violations`."""

    def __init__(self, scheduler: Scheduler, search: Search) -> None:
        self.scheduler = scheduler
        self.search = search
        self.orders: list[str] = []
        self.violations: list[Schedule] = []
        self.began = time.monotonic()

    def run_all(self, max_schedules: int, max_seconds: float | None, *, count_all: bool) -> str:
        """Run all schedules, up to a limit; return which limit ended the search, or "".

        Without `count_all` the search ends at the first schedule in which the invariant does not
        hold, and MAX_RUNS_AFTER_ERROR schedules after the first one in which a process raises.
        """
        end = math.inf  # how many schedules are to run, once one has raised
        while True:
            schedule = self._run_next()
            seconds = time.monotonic() - self.began
            if not self.search.advance():
                return ""
            if schedule and schedule.violation and not count_all:
                end = min(end, len(self.orders) + MAX_RUNS_AFTER_ERROR if schedule.raises else 0)
            if len(self.orders) >= end:
                return AT_FIRST
            if len(self.orders) >= max_schedules:
                return f"max_schedules={max_schedules} reached"
            if max_seconds is not None and seconds >= max_seconds:
                return f"max_seconds={max_seconds} passed after {len(self.orders)} schedules"

    def _run_next(self) -> Schedule | None:
        """Run the next schedule; return None if it is not possible, and left out."""
        search = self.search
        try:
            schedule = self.scheduler.run(
                search.choose,
                before=search.rewind,
                planned=search.prefix,
                known=len(search.prefix),
                add_victims=search.add_victims,
            )
        except NoOtherVictim:
            search.drop()
            return None
        ending = Ending(bool(schedule.violation) + schedule.raises)
        if search.count(violates=ending, affected_others=self.scheduler.affected_others):
            self._keep(schedule)
        return schedule

    def estimate_left(self) -> int:
        """Estimate how many schedules are left to run; 0 if that is not known."""
        share = self.search.share()
        return round(len(self.orders) / share - len(self.orders)) if share else 0

    def of_other_kind(self, than: Schedule | None) -> Schedule | None:
        """Return the simplest violating schedule of the other kind than `than`, or None.

        One kind is that a process raises, the other that the invariant does not hold.
        """
        others = (other for other in self.violations if than and other.raises != than.raises)
        return min(others, key=lambda schedule: rate_simplicity(schedule.order), default=None)

    def counterexample(self) -> Schedule | None:
        """Return the simplest violating schedule; run it if only equivalent schedules have run.

        Raises NotDeterministic if it does not violate the invariant and an equivalent one does.
        """
        order = self.search.shortest_violation()
        if order is None:
            return None
        if order not in self.orders:
            self._keep(self.scheduler.run_order(order))
        for schedule in self.violations:
            if schedule.order == order:
                return schedule
        raise NotDeterministic(
            f"{order} does not violate the invariant, though a schedule that is equivalent does: "
            "explore with reduce=False if the processes share something in Python."
        )

    def serial_failure(self) -> Schedule | None:
        """Return a schedule that fails though the processes run wholly one after the other.

        In the schedules of a search, all processes have run their Python up to the first step
        before the first step is taken.
        """
        for schedule in filter(lambda violation: violation.serial, self.violations):
            numbers = [step.process for step in schedule.timeline]
            numbers += [process.number for process in self.scheduler.processes]
            again = self.scheduler.run_in_turn([*dict.fromkeys(numbers)])
            if again.violation:
                return again
        return None

    def run_near(self, order: str) -> Schedule:
        """Run the schedule nearest to an order of processes, as the order may be impossible."""

        def choose(ready: dict[int, Effect], *_: object) -> int:
            order_taken = [process_of(choice) for choice in self.scheduler.attempt.choices]
            wanted = [*map(int, order[len(order_taken) : len(order_taken) + 1]), *order_taken[-1:]]
            return next((process for process in wanted if process in ready), min(ready))

        return self.scheduler.run(choose)

    def _keep(self, schedule: Schedule) -> None:
        self.orders.append(schedule.order)
        if on_schedule := self.scheduler.options.on_schedule:
            on_schedule(schedule)
        if schedule.violation:
            self.violations.append(schedule)


def count_switches(order: str) -> int:
    return sum(first != second for first, second in itertools.pairwise(order))


def rate_simplicity(order: str) -> tuple[int, int, str]:
    """Return a key to sort orders by: the shortest first, then the fewest switches."""
    return len(order), count_switches(order), order


def shrink(schedule: Schedule, run: Callable[[str], Schedule]) -> Schedule:
    """Return the simplest schedule of the same kind that is found by exchanging some steps.

    `run` runs the schedule nearest to an order of processes, as not every order is possible.
    """
    tried: set[str] = set()
    simpler: Schedule | None = schedule
    while simpler:
        schedule = simpler
        simpler = None
        order = "".join(str(step.process) for step in schedule.timeline)  # without victims
        tried.add(order)
        for near in [*_interrupted_once(order), *_simpler_orders(order)]:
            if near in tried or len(tried) > MAX_RUNS_TO_SHRINK:
                continue
            tried.add(near)
            other = run(near)
            same_kind = other.violation and other.raises == schedule.raises
            if same_kind and rate_simplicity(other.order) < rate_simplicity(schedule.order):
                simpler = other
                break
    return schedule


def _interrupted_once(order: str) -> Iterator[str]:
    """Yield the orders in which one process is interrupted once, and no other process is."""
    processes = sorted(set(order))
    if count_switches(order) <= len(processes):
        return
    for first in processes:
        others = "".join(sorted(order.replace(first, "")))
        for taken in range(1, order.count(first)):
            yield first * taken + others + first * (order.count(first) - taken)


def _simpler_orders(order: str) -> Iterator[str]:
    """Yield the orders in which two runs of steps of one process are joined."""
    runs = ["".join(steps) for _, steps in itertools.groupby(order)]
    for first, run in enumerate(runs):
        later = [at for at in range(first + 1, len(runs)) if runs[at][0] == run[0]]
        if later:
            joined = run + runs[later[0]]
            between = runs[first + 1 : later[0]]
            rest = runs[later[0] + 1 :]
            yield "".join([*runs[:first], joined, *between, *rest])
            yield "".join([*runs[:first], *between, joined, *rest])
