"""What an exploration returns: its schedules, and whether the invariant holds in each of them."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pginterleave import drawing
from pginterleave.steps import Outcome, Timeline

Observe = Callable[[], object]

_watchers: list[list["Exploration"]] = []


@contextlib.contextmanager
def unread() -> Iterator[list["Exploration"]]:
    """Enter with a list that holds the explorations that were made and that nobody looked at."""
    explorations: list[Exploration] = []
    _watchers.append(explorations)
    try:
        yield explorations
    finally:
        del _watchers[-1]


def mark_read(exploration: "Exploration") -> None:
    """Take it that somebody has looked at a result."""
    for explorations in _watchers:
        explorations[:] = [each for each in explorations if each is not exploration]


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


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """The result of `explore`: the `orders` of the schedules that ran, and the `violations`.

    `counterexample` is the shortest violating schedule, of these the one with the fewest switches
    between processes, and then the first lexicographically. `schedules` is the number of all
    schedules, and `violating` the number of those that violate the invariant; without reductions
    all of them ran. `truncated` says which limit ended the search early, and is empty when it is
    complete; `covered` is then a sentence on what was counted all the same. `seconds` is the time
    it took.

    `limits` says what of these processes cannot be stepped through, and so is not explored;
    `unobserved` says which statements went past the exploration, and `unseen_commits` which of them
    commit within their step, where another could come between: both prove nothing.
    """

    orders: tuple[str, ...]
    violations: tuple[Schedule, ...]
    counterexample: Schedule | None = None
    schedules: int
    violating: int
    truncated: str
    covered: str = ""
    seconds: float
    _run: Callable[[str, Observe | None], Schedule] = field(repr=False, compare=False)
    limits: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    unseen_commits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for explorations in _watchers:
            explorations.append(self)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            mark_read(self)
        return super().__getattribute__(name)

    @property
    def complete(self) -> bool:
        """Whether every schedule was counted. Only then does finding nothing prove anything."""
        return not (self.truncated or self.unobserved or self.unseen_commits)

    def replay(self, order: str, *, observe: Observe | None = None) -> Schedule:
        """Run one schedule again; see `run_schedule`."""
        return self._run(order, observe)

    def assert_safe(self) -> None:
        """Raise AssertionError with the counterexample drawn, or because nothing is proven.

        That is when not every schedule was counted, when no process has sent anything, and when
        one has sent statements that were not observed, or that commit within their step.
        """
        __tracebackhide__ = True  # for pytest: the counterexample says it all
        self.assert_no_violation()
        if not self.complete:
            raise AssertionError(f"Not proven: {self}.")

    def assert_no_violation(self) -> None:
        """Raise AssertionError with the counterexample drawn.

        A search with a bound or a limit, or a sample, passes when it has found nothing, and proves
        nothing of the schedules that it left out.
        """
        __tracebackhide__ = True
        if self.counterexample:
            raise AssertionError(
                f"{self}. The shortest is {self.counterexample.order}:\n\n"
                f"{self.counterexample.draw()}\n\n{self.counterexample.violation}"
            )
        if self.orders == ("",):
            raise AssertionError("Not proven: no process has sent anything to the database.")

    def __str__(self) -> str:
        so_far = "the first " if self.truncated else ""
        text = f"{self.violating} of {so_far}{self.schedules} schedules violate the invariant"
        if len(self.orders) < self.schedules:
            text += f" ({len(self.orders)} ran, the others are equivalent)"
        if self.truncated:
            text += f"; the search was truncated: {self.truncated}"
        if self.unobserved:
            text += f"; statements were sent past it, by {' and '.join(self.unobserved)}"
        if self.unseen_commits:
            sent = "; ".join(self.unseen_commits)
            text += f"; what commits within one step belongs in a transaction: {sent}"
        if self.covered:
            text += f". {self.covered}"
        if self.limits:
            text += f". Limits: {'; '.join(self.limits)}"
        return text
