"""The result of an exploration: its schedules, and whether the invariant holds in each."""

import itertools
from dataclasses import dataclass
from typing import Any

from pginterleave import formatting
from pginterleave.picture.conflicts import find_conflicts, find_cycles, find_marks
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.wording import find_changing_columns
from pginterleave.steps import Outcome, Timeline, draw_timeline

AT_FIRST = "stopped at the first violation"  # `truncated` of a search without count_all

unread: list["Exploration"] = []  # explorations of which nobody has read an attribute


def mark_read(exploration: "Exploration") -> None:
    unread[:] = [other for other in unread if other is not exploration]


class NotProven(AssertionError):
    """No violation was found, and not every schedule was counted."""


@dataclass(frozen=True)
class Schedule:
    """A schedule that was run: its `order` (`1212`), its steps, and the outcomes.

    `violation` says what does not hold afterwards, or how it ends otherwise than one after the
    other; it is empty if all is right. Its first line is the point. If a process `raises` an
    exception that is not expected, `violation` names the exception, and no invariant was run.
    """

    order: str
    timeline: Timeline
    outcomes: tuple[Outcome, ...]
    violation: str
    raises: bool = False

    @property
    def serial(self) -> bool:
        """Whether the processes have run one after the other, so that there is no race."""
        has_waited = any(step.waited_for for step in self.timeline)
        processes = [step.process for step in self.timeline]
        turns = [process for process, _ in itertools.groupby(processes)]
        return not has_waited and len(turns) == len(set(turns))

    def draw(self, width: int = 40) -> str:
        """Return the timeline as text, a lane of `width` characters for each process.

        Of a row, the columns are shown that change in the schedule. If the schedule violates the
        invariant, the steps that conflict are marked.
        """
        steps = record_steps(self.timeline)
        by_table = find_changing_columns(steps)
        changing = {number: by_table[step["table"]] for number, step in enumerate(steps, start=1)}
        conflicts = [*find_cycles(steps), *find_conflicts(steps)] if self.violation else []
        marks = find_marks(conflicts)
        return draw_timeline(self.timeline, self.outcomes, width, columns=changing, marks=marks)

    def explain(self) -> str:
        """Return the violation, and the evidence."""
        return "\n\n".join([self.describe_violation(), *self.list_evidence()])

    def list_evidence(self) -> list[str]:
        """Return the drawing, and the tracebacks of processes that raised."""
        parts = [self.draw()] if self.timeline else []
        if self.raises:
            errors = [outcome.raised for outcome in self.outcomes if outcome.raised]
            parts += filter(None, dict.fromkeys(map(formatting.format_traceback, errors)))
        return parts

    def describe_violation(self) -> str:
        """Return the violation, with the message of an exception that it names."""
        for number, outcome in enumerate(self.outcomes, start=1):
            error = outcome.raised
            if not (self.raises and error and formatting.is_database_error(error)):
                continue
            named = f"process {number} raises {type(error).__name__}"
            if self.violation.startswith(named):
                text = formatting.format_exception(error)
                return f"process {number} raises {text}{self.violation.removeprefix(named)}"
        return self.violation


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
        counted_preemptions: every schedule with at most so many preemptions was counted (-1: not
            even those with none); None: every schedule was counted.
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
    counted_preemptions: int | None = None
    left: int = 0
    seconds: float = 0.0
    serial: bool = False
    not_compared: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    unseen_commits: tuple[str, ...] = ()
    unexplored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unread.append(self)

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; the result counts as read from now on."""
        if not name.startswith("_"):
            mark_read(self)
        return super().__getattribute__(name)

    @property
    def complete(self) -> bool:
        """Whether every schedule was counted. Only then is a search without violations a proof."""
        return self.counted_preemptions is None and self.decided

    @property
    def decided(self) -> bool:
        """Whether every schedule was counted that `max_preemptions` allows."""
        return not (self.truncated or self.unobserved or self.unseen_commits or self.unexplored)

    def assert_safe(self) -> None:
        """Raise AssertionError with the counterexample drawn, or NotProven, its subclass.

        Nothing is proven if the exploration is not `decided`, or if no process has sent anything.
        With `max_preemptions` the proof has a limit, which the result names.
        """
        __tracebackhide__ = True  # for pytest: the counterexample is enough
        if self.counterexample:
            raise AssertionError(self._describe_failure(self.counterexample))
        if self.orders == ("",) and not self.unobserved:
            raise NotProven("Not proven: no process has sent anything to the database.")
        if not self.decided:
            reasons = self._list_reasons()
            reasons[0] = reasons[0][0].lower() + reasons[0][1:]
            text = f"Not proven: {_join([*reasons, self._describe_counts(), *self._list_runs()])}"
            raise NotProven(f"{text}{self._describe_limits()}")

    def _describe_failure(self, counterexample: Schedule) -> str:
        if self.serial_failure:
            return self._describe_serial_failure(self.serial_failure)
        so_far = " so far" if self.truncated else ""
        text = f"Race: {counterexample.explain()}"
        if counterexample.serial:
            text += (
                "\n\nBefore the first step, every process has run its Python up to its own first "
                "step, such as a look at the clock. Run wholly one after the other, they hold."
            )
        if counterexample.raises and not self.serial:
            text += "\n\nThe invariant does not run then, unless `expected` names the exception."
        if self.other:
            failure = "a schedule is silently wrong" if self.serial else "the invariant fails"
            if self.other.raises:
                failure = "a process raises an exception"
            text += f"\n\nAnd {failure}, as in {self.other.order}: {self.other.explain()}"
        shortest = f"This is the schedule {counterexample.order}, the shortest{so_far}"
        found = _join(
            [shortest, self._describe_counts(), *self._list_runs(), *self._list_reasons()]
        )
        return f"{text}\n\n{found}{self._describe_limits()}"

    def _describe_serial_failure(self, failure: Schedule) -> str:
        point = failure.describe_violation()
        checked = "the functions" if self.serial else "the functions, the invariant"
        advice = (
            f"Check {checked} and what the test sets up, such as primary keys that a sequence "
            "returns again."
        )
        if failure.raises:
            error = next(outcome.raised for outcome in failure.outcomes if outcome.raised)
            point = formatting.format_exception(error)
            if isinstance(error, TypeError) and not failure.timeline:
                advice = (
                    "A function gets no arguments: give those it needs by partial(function, …)."
                )
            else:
                advice += " Or name the exception in `expected`, if it is correct."
        no_race = f"The functions fail one after the other, too: there is no race. {advice}"
        order = f"This is the order {failure.order}." if failure.order else "Nothing was sent."
        return "\n\n".join([point, no_race, *failure.list_evidence(), order])

    def __str__(self) -> str:
        sentences = [self._describe_counts(), *self._list_runs(), *self._list_reasons()]
        text = _join(sentences)
        return f"{text} Not checked: {'; '.join(self.limits)}." if self.limits else text

    def _describe_limits(self) -> str:
        """Return a line for each limit; "" if there is none."""
        return "\n- ".join(["\n\nNot checked:", *self.limits]) if self.limits else ""

    def _describe_counts(self) -> str:
        """Say how many schedules are wrong."""
        number = f"{'the first ' if self.truncated else ''}{self.schedules}"
        failing = self.violating - self.raising
        raise_so = "a process raises an unexpected exception"
        if self.raising and not failing:
            return f"In {self.raising} of {number} schedules {raise_so}"
        if not failing and self.serial:
            number = f"of {number}" if self.truncated else number
            return f"All {number} schedules end as a serial order does"
        text = f"{failing} of {number} schedules "
        if self.serial:
            text += f"end{'s' * (failing == 1)} as no serial order does"
        else:
            text += f"violate{'s' * (failing == 1)} the invariant"
        return f"{text}, and in {self.raising} {raise_so}" if self.raising else text

    def _list_runs(self) -> list[str]:
        """Return sentences on what was run."""
        ran = len(self.orders)
        sentences = []
        if ran < self.schedules:
            sentences.append(f"{ran} ran; the others are equivalent, if no memory is shared")
        if self.truncated == AT_FIRST:
            sentences.append("The search stopped there")
        if self.complete and not self.violating:
            sentences.append("What Python does between two statements is not interleaved")
        return sentences

    def _list_reasons(self) -> list[str]:
        """Return sentences on why a search without a violation proves nothing."""
        sentences = []
        if self.unobserved:
            senders = " and ".join(self.unobserved)
            sentences.append(f"Statements were sent past the explorer, by {senders}")
        if self.unseen_commits:
            statements = "; ".join(self.unseen_commits)
            sentences.append(f"Put what commits within one step into a transaction: {statements}")
        if self.unexplored:
            sentences.append(f"By chance PostgreSQL decides {'; '.join(self.unexplored)}")
        if self.truncated not in ("", AT_FIRST):
            sentences.append(f"The search was truncated: {self.truncated}")
        if self.left:
            seconds = self.seconds * self.left / len(self.orders)
            sentences.append(
                f"About {self.left:,} or more are left to run, in some {seconds:,.0f} s"
            )
        if self.covered:
            sentences.append(self.covered)
        return sentences


def _join(sentences: list[str]) -> str:
    return " ".join(f"{sentence}." for sentence in sentences)
