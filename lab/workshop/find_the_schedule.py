"""The exercise in reverse: the student hands in a schedule that violates the invariant."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.catalogue import RACES
from lab.catalogue.race_definition import Race
from lab.exceptions import CannotJudge
from lab.workshop import looks_twice
from pginterleave import ImpossibleSchedule
from shorturl.strategies import Strategy, Verdict


@dataclass(frozen=True)
class Puzzle:
    """A race and a wrong strategy: which schedules violate the invariant is to be found.

    Most do, so that it has to be one in which a process takes more than `steps`, as it has noticed
    another and starts from the top.
    """

    race: Race
    strategy: Strategy[Any]
    processes: int
    steps: int

    def judge(self, function: Callable[..., Any]) -> tuple[bool, str]:
        """Run the schedule that `function()` returns; return whether it was it, and a report.

        Raises CannotJudge when `function` does not return a schedule of this race.
        """
        try:
            order = function()
        except Exception as error:  # a function of the user's own can fail in any way
            raise CannotJudge(f"The function raised {type(error).__name__}: {error}.") from error
        if not isinstance(order, str) or not order:
            raise CannotJudge(f"The function returned {order!r}; return a schedule, like '1122'.")
        try:
            shown = self.race.run(self.strategy, self.processes, order)
        except ImpossibleSchedule as error:
            raise CannotJudge(f"{order} is not a schedule of this race: {error}") from error
        title = f"{self.race.name} × {self.strategy.name}, schedule {order}"
        if not shown.violation:
            return False, f"{title} holds. Look for one that does not.\n\n{shown.draw()}"
        numbers = range(1, self.processes + 1)
        again = [each for each in numbers if order.count(str(each)) > self.steps]
        if not again:
            return False, (
                f"{title} violates the invariant, and no process has noticed anything. Look for "
                "one in which a process notices another, starts from the top, and a hit is lost "
                f"all the same.\n\n{shown.draw()}"
            )
        found = f"Found: {shown.violation}, though process {again[0]} has started from the top."
        return True, f"{title} violates the invariant, as required.\n\n{shown.draw()}\n\n{found}"


PUZZLES: dict[str, Puzzle] = {
    "find_the_schedule": Puzzle(
        RACES["lost_update"],
        Strategy("looks_twice", looks_twice.resolve, Verdict.WRONG, "–", "looks twice"),
        processes=3,
        steps=4,
    )
}
