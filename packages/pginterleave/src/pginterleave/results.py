"""The result of an exploration: its schedules, and whether the invariant holds in each."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pginterleave import formatting
from pginterleave.picture.conflicts import find_conflicts, find_cycles, find_marks
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.wording import Names, find_changing_columns
from pginterleave.steps import Outcome, Timeline, draw

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


@dataclass(frozen=True)
class Schedule:
    """A schedule that was run: its `order` (`1212`), its steps, and the outcomes.

    `violation` says what does not hold afterwards; it is empty if the invariant holds. If a process
    `raises` an exception that is not expected, `violation` names the exception, and the invariant
    was not run.
    """

    order: str
    timeline: Timeline
    outcomes: tuple[Outcome, ...]
    violation: str
    raises: bool = False

    @property
    def serial(self) -> bool:
        """Whether the processes have run one after the other, so that there is no race."""
        taken = [step.process for step in self.timeline]
        waited = any(step.waited_for for step in self.timeline)
        switches = sum(first != second for first, second in itertools.pairwise(taken))
        return not waited and switches < max(1, len(set(taken)))

    def draw(self, width: int = 40) -> str:
        """Return the timeline as text, a column of `width` characters for each process."""
        steps = record_steps(self.timeline)
        changed = find_changing_columns(steps, Names(steps))
        columns = {number: changed[step["table"]] for number, step in enumerate(steps, start=1)}
        wrong = [*find_cycles(steps), *find_conflicts(steps)] if steps and self.violation else []
        return draw(self.timeline, self.outcomes, width, columns=columns, marks=find_marks(wrong))

    def explain(self) -> str:
        """Return the drawing, the violation, and the tracebacks of processes that raised."""
        parts = [self.draw(), self.violation]
        if self.raises:
            raised = filter(None, (outcome.raised for outcome in self.outcomes))
            parts += filter(None, map(formatting.format_traceback, raised))
        return "\n\n".join(parts)


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """The result of `explore`.

    Attributes:
        orders: the schedules that ran. The others of all `schedules` are equivalent to one of them.
        violations: the violating schedules that ran.
        counterexample: the shortest violating schedule, and of several the one with the fewest
            switches between processes, and then the first lexicographically; or None.
        other: a violating schedule of the other kind than the counterexample, or None: in one kind
            a process raises an exception that is not expected, in the other nothing is raised.
        serial_failure: a schedule in which the processes run one after the other and fail, or None.
        schedules: the number of all schedules that were counted.
        violating: how many of them violate the invariant, or end as no serial order does.
        raising: in how many of the violating ones a process raises.
        truncated: what ended the search early; empty if the search is complete.
        covered: a sentence on the schedules that a truncated search has certainly counted.
        left: about how many schedules were left to run (0: unknown).
        seconds: the time that the exploration took.
        serial: whether each schedule was compared with the serial orders.
        not_compared: columns and values that the clock or chance sets.
        limits: parts of the processes that are not explored.
        unobserved: who has sent statements past the explorer. Nothing is proven then.
        unseen_commits: statements that commit within their step, where another session could come
            between. Nothing is proven then.
        unexplored: orders that PostgreSQL decides by chance. Nothing is proven then.
    """

    orders: tuple[str, ...]
    violations: tuple[Schedule, ...] = ()
    counterexample: Schedule | None = None
    serial_failure: Schedule | None = None
    other: Schedule | None = None
    schedules: int
    violating: int
    raising: int = 0
    truncated: str
    covered: str = ""
    left: int = 0
    seconds: float = 0.0
    serial: bool = False
    not_compared: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    unseen_commits: tuple[str, ...] = ()
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

    def assert_safe(self) -> None:
        """Raise AssertionError with the counterexample drawn, or NotProven, its subclass.

        Nothing is proven if the exploration is not `complete`, or if no process has sent anything.
        """
        __tracebackhide__ = True  # for pytest: the counterexample is enough
        if self.counterexample:
            raise AssertionError(self._describe_failure(self.counterexample))
        if self.orders == ("",) and not self.unobserved:
            raise NotProven("Not proven: no process has sent anything to the database.")
        if not self.complete:
            raise NotProven(f"Not proven: {self}")

    def _describe_failure(self, counterexample: Schedule) -> str:
        if serial := self.serial_failure:
            also = " Or name the exception in `expected`, if it is correct." * serial.raises
            sent = f"In the order {serial.order}" if serial.order else "Nothing was sent"
            return (
                "The processes also fail one after the other: there is no race. Check what the "
                "test sets up, such as primary keys that a sequence returns again, the functions "
                f"and the invariant.{also} {sent}:\n\n{serial.explain()}\n\n{self}"
            )
        so_far = " so far" if self.truncated else ""
        text = (
            f"{self._describe_counts()}.\n{self._describe_search()}"
            f"The shortest{so_far} is {counterexample.order}:\n\n{counterexample.explain()}"
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
        text = f"{self._describe_counts()}. {self._describe_search()}".rstrip()
        return f"{text} Not checked: {'; '.join(self.limits)}." if self.limits else text

    def _describe_counts(self) -> str:
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

    def _describe_search(self) -> str:
        """Return the sentences that apply to what was run and what was not, with a space behind."""
        ran = len(self.orders)
        seconds = self.seconds * self.left / ran if self.left else 0
        applies = {
            f"{ran} ran; the others are equivalent, if no memory is shared": ran < self.schedules,
            "The search stopped there": self.truncated == AT_FIRST,
            f"The search was truncated: {self.truncated}": self.truncated not in ("", AT_FIRST),
            f"About {self.left:,} or more are left to run, in some {seconds:,.0f} s": self.left,
            self.covered: self.covered,
            f"Statements were sent past the explorer, by {' and '.join(self.unobserved)}": (
                self.unobserved
            ),
            "Put what commits within one step into a transaction: "
            f"{'; '.join(self.unseen_commits)}": self.unseen_commits,
            f"PostgreSQL decides by chance {'; '.join(self.unexplored)}": self.unexplored,
            "What Python does between two statements is not interleaved": (
                self.complete and not self.violating
            ),
        }
        return "".join(f"{sentence}. " for sentence, is_true in applies.items() if is_true)
