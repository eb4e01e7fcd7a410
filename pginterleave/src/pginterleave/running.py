"""Runs the schedules that a search or a sample chooses, and keeps what comes of them."""

import time
from collections.abc import Callable
from typing import Protocol

from pginterleave.effects import Effect
from pginterleave.explorer_errors import NotDeterministic
from pginterleave.progress import Progress
from pginterleave.results import Observe, Schedule
from pginterleave.scheduler import Scheduler
from pginterleave.states import Positions


class Chooser(Protocol):
    """What chooses the schedules: a Search or a Sampler."""

    @property
    def known(self) -> int:
        """With how many steps the schedule begins that it can tell beforehand."""

    def planned(self) -> list[int]:
        """Return the choices that the schedule begins with."""

    def add_victims(self, victims: list[int]) -> None:
        """Take note of who else may be the victim of the deadlock that the last step has closed."""

    def rewind(self) -> None:
        """Begin a schedule, possibly one that was begun before."""

    def choose(self, ready: dict[int, Effect], positions: Positions, affected_others: bool) -> int:
        """Return which of the ready processes takes the next step."""

    def count(self, *, violates: bool, affected_others: bool) -> bool:
        """Count the schedule that has run; return whether it is new."""

    def advance(self) -> bool:
        """Go to the next schedule; False when there is none."""

    def share(self) -> float:
        """Return which share of all is done, from 0 to 1."""

    def shortest_violation(self) -> str | None:
        """Return the shortest order that violates the invariant, with the fewest switches."""


class Run:
    """The schedules that have run: their `orders`, and the `violations`."""

    def __init__(
        self,
        scheduler: Scheduler,
        chooser: Chooser,
        observe: Observe | None,
        each: Callable[[Schedule], object],
    ) -> None:
        self.scheduler, self.chooser, self.observe, self.each = scheduler, chooser, observe, each
        self.orders: list[str] = []
        self.violations: list[Schedule] = []
        self.began = time.monotonic()

    def all(
        self, max_schedules: int, max_seconds: float, show: Callable[[Progress], object]
    ) -> str:
        """Run all schedules, up to a limit; return which limit ended it, or ""."""
        chooser, scheduler = self.chooser, self.scheduler
        while True:
            schedule = scheduler.run(
                chooser.choose,
                before=chooser.rewind,
                observe=self.observe,
                planned=chooser.planned(),
                known=chooser.known,
                add_victims=chooser.add_victims,
            )
            violates, affected_others = bool(schedule.violation), scheduler.affected_others
            if chooser.count(violates=violates, affected_others=affected_others):
                self._keep(schedule)
            seconds = time.monotonic() - self.began
            show(Progress(chooser.share(), len(self.orders), len(self.violations), seconds))
            if not chooser.advance():
                return ""
            limit = ""
            if len(self.orders) >= max_schedules:
                limit = f"max_schedules={max_schedules} reached"
            elif seconds >= max_seconds:
                limit = f"max_seconds={max_seconds} passed after {len(self.orders)} schedules"
            if limit:
                return limit + scheduler.monitor.slow_deadlock_hint()

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
        """Run the schedule that is nearest to this order, which may be impossible."""

        def choose(ready: dict[int, Effect], *_: object) -> int:
            taken = self.scheduler.attempt.order()
            wanted = order[len(taken) : len(taken) + 1] + taken[-1:]
            return next((int(each) for each in wanted if int(each) in ready), min(ready))

        return self.scheduler.run(choose, observe=self.observe)

    def _keep(self, schedule: Schedule) -> None:
        self.orders.append(schedule.order)
        self.each(schedule)
        if schedule.violation:
            self.violations.append(schedule)
