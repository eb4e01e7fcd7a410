"""What an exploration returns: its schedules, and whether the invariant holds in each of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pginterleave import drawing
from pginterleave.steps import Outcome, Timeline

Observe = Callable[[], object]


@dataclass(frozen=True)
class Schedule:
    """One schedule that was run: its `order` (`1212`), its steps, and the outcomes.

    `violation` says what does not hold afterwards, or which process raised an exception that is
    not expected; it is empty when the invariant holds.
    """

    order: str
    timeline: Timeline
    outcomes: tuple[Outcome, ...]
    violation: str

    def draw(self, width: int = 40) -> str:
        """Return the timeline as text, a column of `width` characters for each process."""
        return drawing.draw(self.timeline, self.outcomes, width)


@dataclass(frozen=True)
class Exploration:
    """The result of `explore`: the `orders` of the schedules that ran, and the `violations`.

    `schedules` is the number of all schedules, and `violating` the number of those that violate the
    invariant; without `reduce` all of them ran. `truncated` says which limit ended the search
    early, and is empty when it is complete. `seconds` is the time it took.
    """

    orders: tuple[str, ...]
    violations: tuple[Schedule, ...]
    schedules: int
    violating: int
    truncated: str
    seconds: float
    _run: Callable[[str, Observe | None], Schedule] = field(repr=False, compare=False)

    @property
    def complete(self) -> bool:
        """Whether every schedule was counted. Only then does finding nothing prove anything."""
        return not self.truncated

    @property
    def counterexample(self) -> Schedule | None:
        """The shortest violating schedule, lexicographically first; None without one."""
        return min(self.violations, key=lambda each: (len(each.order), each.order), default=None)

    def replay(self, order: str, *, observe: Observe | None = None) -> Schedule:
        """Run one schedule again; see `run_schedule`."""
        return self._run(order, observe)

    def assert_safe(self) -> None:
        """Raise AssertionError with the counterexample drawn, or because nothing is proven.

        That is when the search was truncated, and when no process has sent anything.
        """
        __tracebackhide__ = True  # for pytest: the counterexample says it all
        if self.counterexample:
            raise AssertionError(
                f"{self}. The shortest is {self.counterexample.order}:\n\n"
                f"{self.counterexample.draw()}\n\n{self.counterexample.violation}"
            )
        if self.truncated:
            raise AssertionError(f"Not proven: {self}.")
        if self.orders == ("",):
            raise AssertionError("Not proven: no process has sent anything to the database.")

    def __str__(self) -> str:
        so_far = "the first " if self.truncated else ""
        text = f"{self.violating} of {so_far}{self.schedules} schedules violate the invariant"
        if len(self.orders) < self.schedules:
            text += f" ({len(self.orders)} ran, the others are equivalent)"
        return f"{text}; the search was truncated: {self.truncated}" if self.truncated else text
