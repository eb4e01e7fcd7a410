"""Runs the schedules that a search chooses, and makes a counterexample simpler."""

import itertools
import math
from collections.abc import Callable, Iterator

from pginterleave.choices import process_of
from pginterleave.explorer_errors import NoOtherVictim, NotDeterministic
from pginterleave.processes.clocks import RealClock
from pginterleave.processes.scheduler import Scheduler
from pginterleave.results import AT_FIRST, Schedule
from pginterleave.searching.search import Search
from pginterleave.searching.state_graph import Ending
from pginterleave.sql.dependent_steps import Effect

MAX_RUNS_AFTER_ERROR = 100  # schedules to run after one that raises, to find a broken invariant
BEGIN_AGAIN = "more steps depend on each other than was known"
MAX_RUNS_TO_SHRINK = 200  # schedules to run to find a simpler one
RunSimilar = Callable[[str], Schedule]  # runs the schedule most similar to an order of processes


class Run:
    """Runs the schedules of a search; keeps their `orders`, and those that are `violations`."""

    def __init__(self, scheduler: Scheduler, search: Search) -> None:
        self.scheduler = scheduler
        self.search = search
        self.orders: list[str] = []
        self.violations: list[Schedule] = []
        self.began = RealClock.monotonic()

    def run_all(self, max_schedules: int, max_seconds: float | None, *, count_all: bool) -> str:
        """Run all schedules, or up to a limit; return what ended the search early, or "".

        Without `count_all` the search ends at the first schedule in which the invariant does not
        hold, and MAX_RUNS_AFTER_ERROR schedules after the first one in which a process raises. It
        ends with BEGIN_AGAIN if a process has read its clock after a step as never before.
        """
        reads = self.scheduler.control.clock_reads
        known_reads = reads.count()
        max_runs = math.inf  # how many schedules run in all, once there is a violation
        while True:
            schedule = self._run_next()
            seconds = RealClock.monotonic() - self.began
            knows_too_little = reads.count() > known_reads or self.scheduler.monitor.locks_awaited
            if self.search.graph.reduces and knows_too_little:
                return BEGIN_AGAIN
            if not self.search.advance():
                return ""
            if schedule and schedule.violation and not count_all:
                runs_left = MAX_RUNS_AFTER_ERROR if schedule.raises else 0
                max_runs = min(max_runs, len(self.orders) + runs_left)
            if len(self.orders) >= max_runs:
                return AT_FIRST
            if len(self.orders) >= max_schedules:
                return f"max_schedules={max_schedules} reached"
            if max_seconds is not None and seconds >= max_seconds:
                return f"max_seconds={max_seconds} passed after {len(self.orders)} schedules"

    def _run_next(self) -> Schedule | None:
        """Run the next schedule; return None if PostgreSQL does not allow its victim."""
        search = self.search
        try:
            schedule = self.scheduler.run(
                search.choose,
                before_attempt=search.rewind,
                planned=search.prefix,
                known_steps=len(search.prefix),
                add_victims=search.add_victims,
            )
        except NoOtherVictim:
            search.drop_last_of_prefix()
            return None
        ending = Ending.HOLDS
        if schedule.violation:
            ending = Ending.RAISED if schedule.raises else Ending.VIOLATED
        if search.finish_schedule(ending, affected_others=self.scheduler.affected_others):
            self._keep_schedule(schedule)
        return schedule

    def estimate_left(self) -> int:
        """Estimate how many schedules are left to run; 0 if that is not known."""
        share_done = min(self.search.graph.share_done, 1.0)
        done = len(self.orders)
        return round(done / share_done - done) if share_done else 0

    def find_other_kind(self, counterexample: Schedule) -> Schedule | None:
        """Return the simplest violation that raises if `counterexample` does not, or vice versa."""
        raises = counterexample.raises
        others = [schedule for schedule in self.violations if schedule.raises != raises]
        return min(others, key=lambda schedule: rate_simplicity(schedule.order), default=None)

    def find_counterexample(self) -> Schedule | None:
        """Return the simplest violating schedule; run it if only equivalent schedules have run."""
        order = self.search.find_shortest_violation()
        if order is None:
            return None
        if order not in self.orders:
            self._keep_schedule(self.scheduler.run_order(order))
        for schedule in self.violations:
            if schedule.order == order:
                return schedule
        raise NotDeterministic(
            f"The schedule {order} ends well, though one that differs from it only in the order of "
            "independent steps does not: give options=Options(reduce=False) if the processes "
            "share something in Python."
        )

    def find_serial_failure(self) -> Schedule | None:
        """Run serial schedules that failed once more, and return the first that fails again.

        Now even the Python of the processes runs one after the other. In a search, every process
        has run its Python up to its first step before the first step is taken.
        """
        for violation in [schedule for schedule in self.violations if schedule.serial]:
            order = [step.process for step in violation.timeline]
            order += [process.number for process in self.scheduler.processes]  # without a step
            each_once = list(dict.fromkeys(order))
            schedule = self.scheduler.run_in_turn(each_once)
            if schedule.violation:
                return schedule
        return None

    def run_similar(self, order: str) -> Schedule:
        """Run a possible schedule that is most similar to an order of processes.

        Where the process that the order has next cannot go on, that of the last step does, or else
        the first one that can.
        """

        def choose(ready: dict[int, Effect], *_: object) -> int:
            taken = [process_of(choice) for choice in self.scheduler.attempt.choices]
            following = order[len(taken) :]
            if following and int(following[0]) in ready:
                return int(following[0])
            return taken[-1] if taken and taken[-1] in ready else min(ready)

        return self.scheduler.run(choose)

    def _keep_schedule(self, schedule: Schedule) -> None:
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


def shrink(schedule: Schedule, run_similar: RunSimilar) -> Schedule:
    """Return the simplest schedule of the same kind that is found by exchanging some steps."""
    tried: set[str] = set()
    while simpler := _find_simpler(schedule, run_similar, tried):
        schedule = simpler
    return schedule


def _find_simpler(schedule: Schedule, run: RunSimilar, tried: set[str]) -> Schedule | None:
    """Return the first simpler schedule of the same kind; add the orders that run to `tried`."""
    order = "".join(str(step.process) for step in schedule.timeline)  # without victims
    tried.add(order)
    for similar in [*_interrupt_once(order), *_join_turns(order)]:
        if similar in tried or len(tried) > MAX_RUNS_TO_SHRINK:
            continue
        tried.add(similar)
        other = run(similar)
        is_same_kind = other.violation and other.raises == schedule.raises
        if is_same_kind and rate_simplicity(other.order) < rate_simplicity(schedule.order):
            return other
    return None


def _interrupt_once(order: str) -> Iterator[str]:
    """Yield the orders in which one process is interrupted once, and no other process is."""
    processes = sorted(set(order))
    if count_switches(order) <= len(processes):
        return  # it is such an order, or a serial one
    for process in processes:
        steps = order.count(process)
        others = "".join(sorted(order.replace(process, "")))
        for steps_before in range(1, steps):
            yield process * steps_before + others + process * (steps - steps_before)


def _join_turns(order: str) -> Iterator[str]:
    """Yield the orders in which two turns of a process are one: `1221` has two of process 1."""
    turns = ["".join(steps) for _, steps in itertools.groupby(order)]
    for first, turn in enumerate(turns):
        later = [index for index in range(first + 1, len(turns)) if turns[index][0] == turn[0]]
        if later:
            second = later[0]
            joined = turn + turns[second]
            between = turns[first + 1 : second]
            yield "".join([*turns[:first], joined, *between, *turns[second + 1 :]])
            yield "".join([*turns[:first], *between, joined, *turns[second + 1 :]])
