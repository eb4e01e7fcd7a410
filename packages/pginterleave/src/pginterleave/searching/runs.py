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
        max_runs = math.inf  # how many schedules are to run, once one is wrong
        while True:
            schedule = self._run_next()
            seconds = time.monotonic() - self.began
            if not self.search.advance():
                return ""
            if schedule and schedule.violation and not count_all:
                more = MAX_RUNS_AFTER_ERROR if schedule.raises else 0
                max_runs = min(max_runs, len(self.orders) + more)
            if len(self.orders) >= max_runs:
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
            search.drop_last_of_prefix()
            return None
        ending = Ending.VIOLATED if schedule.violation else Ending.HOLDS
        ending = Ending.RAISED if schedule.raises else ending
        if search.finish_schedule(ending, affected_others=self.scheduler.affected_others):
            self._keep(schedule)
        return schedule

    def estimate_left(self) -> int:
        """Estimate how many schedules are left to run; 0 if that is not known."""
        share = min(self.search.graph.share_done, 1.0)
        return round(len(self.orders) / share - len(self.orders)) if share else 0

    def find_other_kind(self, counterexample: Schedule) -> Schedule | None:
        """Return the simplest violation that raises if `counterexample` does not, or vice versa."""
        raises = counterexample.raises
        others = [schedule for schedule in self.violations if schedule.raises != raises]
        return min(others, key=lambda schedule: rate_simplicity(schedule.order), default=None)

    def find_counterexample(self) -> Schedule | None:
        """Return the simplest violating schedule; run it if only equivalent schedules have run.

        Raises NotDeterministic if it does not violate the invariant and an equivalent one does.
        """
        order = self.search.find_shortest_violation()
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

    def find_serial_failure(self) -> Schedule | None:
        """Return a schedule that fails though the processes run wholly one after the other.

        In the schedules of a search, all processes have run their Python up to the first step
        before the first step is taken.
        """
        for schedule in [violation for violation in self.violations if violation.serial]:
            numbers = [step.process for step in schedule.timeline]
            numbers += [process.number for process in self.scheduler.processes]  # without a step
            again = self.scheduler.run_in_turn(list(dict.fromkeys(numbers)))
            if again.violation:
                return again
        return None

    def run_similar(self, order: str) -> Schedule:
        """Run the schedule most similar to an order of processes, as that may be impossible.

        Each step is of the order's next process, or else of the last one, or of the first ready.
        """

        def choose(ready: dict[int, Effect], *_: object) -> int:
            taken = [process_of(choice) for choice in self.scheduler.attempt.choices]
            if len(taken) < len(order) and int(order[len(taken)]) in ready:
                return int(order[len(taken)])
            return taken[-1] if taken and taken[-1] in ready else min(ready)

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

    `run` runs the schedule most similar to an order of processes: see `Run.run_similar`.
    """
    tried: set[str] = set()
    simpler: Schedule | None = schedule
    while simpler:
        schedule = simpler
        simpler = None
        order = "".join(str(step.process) for step in schedule.timeline)  # without victims
        tried.add(order)
        for similar in [*_interrupt_once(order), *_join_runs(order)]:
            if similar in tried or len(tried) > MAX_RUNS_TO_SHRINK:
                continue
            tried.add(similar)
            other = run(similar)
            same_kind = other.violation and other.raises == schedule.raises
            if same_kind and rate_simplicity(other.order) < rate_simplicity(schedule.order):
                simpler = other
                break
    return schedule


def _interrupt_once(order: str) -> Iterator[str]:
    """Yield the orders in which one process is interrupted once, and no other process is."""
    processes = sorted(set(order))
    if count_switches(order) <= len(processes):
        return
    for first in processes:
        others = "".join(sorted(order.replace(first, "")))
        for before in range(1, order.count(first)):
            yield first * before + others + first * (order.count(first) - before)


def _join_runs(order: str) -> Iterator[str]:
    """Yield the orders in which a run of steps of a process is joined with the process's next."""
    runs = ["".join(steps) for _, steps in itertools.groupby(order)]
    for first, run in enumerate(runs):
        later = [index for index in range(first + 1, len(runs)) if runs[index][0] == run[0]]
        if later:
            second = later[0]
            joined = run + runs[second]
            between = runs[first + 1 : second]
            rest = runs[second + 1 :]
            yield "".join([*runs[:first], joined, *between, *rest])
            yield "".join([*runs[:first], *between, joined, *rest])
