"""The result of an exploration: its schedules, and whether the invariant holds in each."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import ne
from typing import Any

from pginterleave import formatting
from pginterleave.picture import drawn_text
from pginterleave.steps import RanSchedule, draw

Observe = Callable[[], object]
AT_FIRST = "stopped at the first violation"  # `truncated` of a search without count_all

_watchers: list[list["Exploration"]] = []


@contextlib.contextmanager
def unread() -> Iterator[list["Exploration"]]:
    """Enter with a list of the explorations whose results have not been read."""
    explorations: list[Exploration] = []
    _watchers.append(explorations)
    try:
        yield explorations
    finally:
        del _watchers[-1]


def mark_read(exploration: "Exploration") -> None:
    for explorations in _watchers:
        explorations[:] = [other for other in explorations if other is not exploration]


class NotProven(AssertionError):
    """No violation was found, and not every schedule was counted."""


class Schedule(RanSchedule):
    """A schedule that was run, which can be drawn."""

    @property
    def serial(self) -> bool:
        """Whether the processes have run one after the other, so that there is no race."""
        taken = [step.process for step in self.timeline]
        waited = any(step.waited_for for step in self.timeline)
        return not waited and sum(map(ne, taken, taken[1:])) < max(1, len(set(taken)))

    def draw(self, width: int = 40) -> str:
        """Return the timeline as text, a column of `width` characters for each process."""
        columns = drawn_text.columns_that_change(self)
        marks = drawn_text.marks_of_steps(self)
        return draw(self.timeline, self.outcomes, width, columns=columns, marks=marks)

    def explain(self) -> str:
        """Return the drawing, the violation, and the tracebacks of processes that raised."""
        parts = [self.draw(), self.violation]
        if self.raises:
            raised = filter(None, (outcome.raised for outcome in self.outcomes))
            parts += filter(None, map(formatting.format_traceback, raised))
        return "\n\n".join(parts)


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """The result of `explore`: the `orders` of the schedules that ran, and the `violations`.

    `counterexample` is the shortest violating schedule. If several are as short, it is the one with
    the fewest switches between processes, and then the first lexicographically. There are two kinds
    of violations: a process raises an exception that is not expected, or the invariant does not
    hold. `other` is a violating schedule of the other kind than the counterexample, or None.
    `serial_failure` is a schedule in which the processes run one after the other and fail, too; or
    None.

    `schedules` is the number of all schedules, and `violating` the number of those that violate. In
    `raising` of the violating ones a process raises, and in the others the invariant does not hold.
    Without reductions all schedules ran. `truncated` says what ended the search early; it is empty
    if the search is complete. In a truncated search, `covered` is a sentence on the schedules that
    were certainly counted, and `left` estimates how many were left to run (0: unknown). `seconds`
    is the time that the exploration took.

    `serial` says that each schedule was compared with the serial orders, and `violating` then
    counts those that end as none of them does. `not_compared` names columns and values that the
    clock or chance sets.

    `isolation_level` is the isolation level of the transactions, if it was given.

    `limits` names parts of the processes that are not explored, as they cannot be stepped through.
    Nothing is proven if one of the following is not empty. `unobserved` names the senders of
    statements past the explorer. `unseen_commits` names statements that commit within their step,
    where another session could come between. `unexplored` names orders that PostgreSQL decides by
    chance.
    """

    orders: tuple[str, ...]
    violations: tuple[Schedule, ...]
    counterexample: Schedule | None = None
    serial_failure: Schedule | None = None
    other: Schedule | None = None
    schedules: int
    violating: int
    raising: int = 0
    truncated: str
    covered: str = ""
    left: int = 0
    seconds: float
    serial: bool = False
    not_compared: tuple[str, ...] = ()
    _run: Callable[[str, Observe | None], Schedule] = field(repr=False, compare=False)
    limits: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    unseen_commits: tuple[str, ...] = ()
    isolation_level: str = ""
    unexplored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for explorations in _watchers:
            explorations.append(self)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            mark_read(self)
        return super().__getattribute__(name)

    @property
    def complete(self) -> bool:
        """Whether every schedule was counted. Only then is a search without violations a proof."""
        unproven = self.unobserved or self.unseen_commits or self.unexplored
        return not (self.truncated or unproven)

    def replay(self, order: str, *, observe: Observe | None = None) -> Schedule:
        """Run one schedule again, as `run_schedule` does."""
        return self._run(order, observe)

    def assert_safe(self) -> None:
        """Raise AssertionError with the counterexample drawn, or NotProven, its subclass.

        Nothing is proven if not every schedule was counted, or if no process has sent anything.
        Nothing is proven either if a process has sent statements that were not observed, or that
        commit within their step.
        """
        __tracebackhide__ = True  # for pytest: the counterexample is enough
        self.assert_no_violation()
        if not self.complete:
            raise NotProven(f"Not proven: {self}")

    def assert_no_violation(self) -> None:
        """Raise AssertionError with the counterexample drawn, or NotProven if no step was sent.

        A truncated search without a violation passes. Schedules that were left out may
        violate the invariant.
        """
        __tracebackhide__ = True
        if self.counterexample:
            raise AssertionError(self._failure(self.counterexample))
        if self.orders == ("",) and not self.unobserved:
            raise NotProven("Not proven: no process has sent anything to the database.")

    def _failure(self, counterexample: Schedule) -> str:
        if serial := self.serial_failure:
            also = (
                " Or name the exception in `expected`, if it is correct." if serial.raises else ""
            )
            sent = f"In the order {serial.order}" if serial.order else "Nothing was sent"
            return (
                "The processes also fail one after the other: there is no race. Check what the "
                "test sets up, such as primary keys that a sequence returns again, the functions "
                f"and the invariant.{also} {sent}:\n\n{serial.explain()}\n\n{self}"
            )
        so_far = " so far" if self.truncated else ""
        text = (
            f"{self._counts()}.\n{self._search()}The shortest{so_far} is {counterexample.order}:"
            f"\n\n{counterexample.explain()}"
        )
        if counterexample.serial:
            text += (
                "\n\nBefore the first step, every process has run its Python up to its own first "
                "step, such as a look at the clock. Run wholly one after the other, they hold."
            )
        if counterexample.raises and not self.serial:
            text += "\n\nThe invariant does not run then, unless `expected` names the exception."
        if self.other:
            silent = "a schedule is silently wrong" if self.serial else "the invariant fails"
            other = "a process raises an exception" if self.other.raises else silent
            text += f"\n\nAnd {other}, as in {self.other.order}:\n\n{self.other.explain()}"
        return "\n- ".join([f"{text}\n\nNot checked:", *self.limits]) if self.limits else text

    def __str__(self) -> str:
        text = f"{self._counts()}. {self._search()}".rstrip()
        return f"{text} Not checked: {'; '.join(self.limits)}." if self.limits else text

    def _counts(self) -> str:
        """Say how many schedules are wrong."""
        so_far = "the first " if self.truncated else ""
        failing = self.violating - self.raising
        text = f"{failing} of {so_far}{self.schedules} schedules "
        if self.serial:
            text += f"end{'s' * (failing == 1)} as no serial order does"
        else:
            text += f"violate{'s' * (failing == 1)} the invariant"
        if self.raising:
            text += f", and in {self.raising} a process raises an unexpected exception"
        return text

    def _search(self) -> str:
        """Return sentences on what was run and what was not, each with a space behind it."""
        sentences = []
        if len(self.orders) < self.schedules:
            ran = f"{len(self.orders)} ran; the others are equivalent, if no memory is shared"
            sentences.append(ran)
        if self.truncated == AT_FIRST:
            sentences.append("The search stopped there")
        elif self.truncated:
            sentences.append(f"The search was truncated: {self.truncated}")
        if self.left:
            seconds = self.seconds * self.left / len(self.orders)
            sentences.append(
                f"About {self.left:,} or more are left to run, in some {seconds:,.0f} s"
            )
        if self.covered:
            sentences.append(self.covered)
        if self.unobserved:
            senders = " and ".join(self.unobserved)
            sentences.append(f"Statements were sent past the explorer, by {senders}")
        if self.unseen_commits:
            sent = "; ".join(self.unseen_commits)
            sentences.append(f"Put what commits within one step into a transaction: {sent}")
        if self.unexplored:
            sentences.append(f"PostgreSQL decides by chance {'; '.join(self.unexplored)}")
        if self.complete and not self.violating:
            sentences.append("What Python does between two statements is not interleaved")
        return "".join(f"{sentence}. " for sentence in sentences)
