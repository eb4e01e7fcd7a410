"""Runs the schedules that a search or a sample chooses, and keeps what comes of them."""

import math
import time
from collections.abc import Callable

from pginterleave.choices import process_of
from pginterleave.effects import Effect
from pginterleave.explorer_errors import NotDeterministic
from pginterleave.progress import Progress
from pginterleave.results import AT_FIRST, Observe, Schedule
from pginterleave.sampling import Sampler, simplicity
from pginterleave.scheduler import Scheduler
from pginterleave.search import Search
from pginterleave.states import Ending

LOOK_FURTHER = 100  # schedules after one that raises, for one in which the invariant fails


class Run:
    """The schedules that have run: their `orders`, and the `violations`."""

    def __init__(
        self,
        scheduler: Scheduler,
        chooser: Search | Sampler,
        observe: Observe | None,
        each: Callable[[Schedule], object],
    ) -> None:
        self.scheduler, self.chooser, self.observe, self.each = scheduler, chooser, observe, each
        self.orders: list[str] = []
        self.violations: list[Schedule] = []
        self.began = time.monotonic()

    def all(
        self,
        max_schedules: int,
        max_seconds: float | None,
        show: Callable[[Progress], object],
        *,
        count_all: bool,
    ) -> str:
        """Run all schedules, up to a limit; return which limit ended it, or "".

        Without `count_all` it ends at the first one in which the invariant does not hold, and, when
        a process raises an exception, looks for such a one no further than LOOK_FURTHER.
        """
        chooser, scheduler = self.chooser, self.scheduler
        end = math.inf  # how many schedules are to run, once one has raised
        while True:
            schedule = scheduler.run(
                chooser.choose,
                before=chooser.rewind,
                observe=self.observe,
                planned=chooser.prefix,
                known=len(chooser.prefix),
                add_victims=chooser.add_victims,
            )
            ending = Ending.VIOLATED if schedule.violation else Ending.HOLDS
            if schedule.raises:
                ending = Ending.RAISED
            if chooser.count(violates=ending, affected_others=scheduler.affected_others):
                self._keep(schedule)
            seconds = time.monotonic() - self.began
            show(Progress(chooser.share(), len(self.orders), len(self.violations), seconds))
            if not chooser.advance():
                return ""
            if schedule.violation and not count_all:
                end = min(end, len(self.orders) + LOOK_FURTHER if schedule.raises else 0)
            if len(self.orders) >= end:
                return AT_FIRST
            hint = scheduler.monitor.slow_deadlock_hint()
            if len(self.orders) >= max_schedules:
                return f"max_schedules={max_schedules} reached{hint}"
            if max_seconds is not None and seconds >= max_seconds:
                return f"max_seconds={max_seconds} passed after {len(self.orders)} schedules{hint}"

    def left(self) -> int:
        """Estimate how many schedules are left to run; 0 if that is not known."""
        share = self.chooser.share()
        return round(len(self.orders) / share - len(self.orders)) if share else 0

    def of_other_kind(self, than: Schedule | None) -> Schedule | None:
        """Return the simplest schedule that raises, if this one does not, or the other way round.

        Of those that have run; None if there is none.
        """
        others = [each for each in self.violations if than and each.raises != than.raises]
        return min(others, key=lambda each: simplicity(each.order), default=None)

    def counterexample(self) -> Schedule | None:
        """Return the simplest violating schedule; run it if only equivalent ones have run.

        Raises NotDeterministic if it does not violate the invariant, unlike these.
        """
        order = self.chooser.shortest_violation()
        if order is None:
            return None
        if order not in self.orders:
            self._keep(self.scheduler.run_order(order, self.observe))
        for schedule in self.violations:
            if schedule.order == order:
                return schedule
        raise NotDeterministic(
            f"{order} does not violate the invariant, though a schedule that is equivalent does: "
            "explore without reduce=True if the processes share something in Python, and without "
            "symmetric=True if they, setup or the invariant tell them apart."
        )

    def near(self, order: str) -> Schedule:
        """Run the schedule that is nearest to this order of processes, which may be impossible."""

        def choose(ready: dict[int, Effect], *_: object) -> int:
            taken = [process_of(each) for each in self.scheduler.attempt.choices]
            wanted = [*map(int, order[len(taken) : len(taken) + 1]), *taken[-1:]]
            return next((each for each in wanted if each in ready), min(ready))

        return self.scheduler.run(choose, observe=self.observe)

    def _keep(self, schedule: Schedule) -> None:
        self.orders.append(schedule.order)
        self.each(schedule)
        if schedule.violation:
            self.violations.append(schedule)
