"""The exercise turned round: the student hands in a schedule, and it has to break."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management import CommandError

from lab.catalogue import RACES
from lab.catalogue.race_definition import Race
from lab.workshop import looks_twice
from pginterleave import ImpossibleSchedule
from shorturl.strategies import Strategy, Verdict


@dataclass(frozen=True)
class Puzzle:
    """A strategy that a race breaks, in schedules that are to be found."""

    race: Race
    strategy: Strategy[Any]
    processes: int = 2

    def judge(self, function: Callable[..., Any]) -> tuple[bool, str]:
        """Run the schedule that `function()` returns; return whether it breaks, and it drawn.

        Raises CommandError, with exit code 2, when `function` returns none that could be run.
        """
        order = self._schedule(function)
        try:
            shown = self.race.run(self.strategy, self.processes, order)
        except ImpossibleSchedule as error:
            raise CommandError(f"{order} is no schedule of this race: {error}", returncode=2) from (
                error
            )
        title = f"{self.race.name} × {self.strategy.name}, schedule {order}"
        if not shown.violation:
            return False, f"{title} holds. Look for one that breaks.\n\n{shown.draw()}"
        return True, f"{title} breaks, as it was to.\n\n{shown.draw()}\n\nFound: {shown.violation}."

    def _schedule(self, function: Callable[..., Any]) -> str:
        try:
            order = function()
        except Exception as error:  # a function of the user's own can fail in any way
            what = f"{type(error).__name__}: {error}"
            raise CommandError(f"The function raised {what}.", returncode=2) from error
        if not isinstance(order, str) or not order:
            raise CommandError(
                f"The function returned {order!r}; return a schedule, like '1122'.", returncode=2
            )
        return order


PUZZLES: dict[str, Puzzle] = {
    "find_the_schedule": Puzzle(
        RACES["lost_update"],
        Strategy("looks_twice", looks_twice.resolve, Verdict.WRONG, "–", "looks twice"),
    )
}
