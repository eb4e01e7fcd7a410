"""Judges a schedule by the serial orders: it has to end as the processes do one after the other."""

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.compared_ends import Comparison, Form
from pginterleave.judging.end_states import Column, EndState, EndStates
from pginterleave.judging.judge import (
    Expected,
    Function,
    Invariant,
    Verdict,
    raised,
    refuse_other_than_classes,
    violation_of,
)
from pginterleave.judging.values import leaves, outcome_value
from pginterleave.sql.statements import locked_tables, words
from pginterleave.steps import Outcome

if TYPE_CHECKING:
    from pginterleave.processes.scheduler import Scheduler

MAX_PROCESSES = 4  # which have 24 orders

TryAgain = Callable[[Outcome], object]
Order = tuple[int, ...]  # of the processes


class SerialJudge:
    """Compares the end of a schedule with the ends of the serial orders.

    Args:
        ask: runs a query on the caller's connection.
        expected: the exceptions by which a process is refused; it then runs once more alone.
        try_again: whether an outcome says that the process has to run once more alone.
        invariant: is judged besides.
    """

    def __init__(
        self,
        ask: Callable[..., list[Any]],
        *,
        expected: Expected,
        try_again: TryAgain | None,
        invariant: Invariant | None,
    ) -> None:
        refuse_other_than_classes(expected)
        self.expected, self.try_again, self.invariant = expected, try_again, invariant
        self.states = EndStates(ask)
        self.comparison = Comparison(self.states)
        self.ends: dict[Order, EndState] = {}
        self.raised: dict[Order, list[str]] = {}  # what each process raised
        self.writers: dict[str, set[int]] = {}  # processes, by what clock or chance has set
        self.several: set[int] = set()  # the processes with several transactions that write
        self.has_mails = False
        self._mails = 0  # before the schedule
        self._recorded: tuple[EndState, list[str]] | None = None
        self._is_learning = False
        self._forms: dict[Column | None, set[Form]] = {}
        self._tables: frozenset[str] = frozenset()

    def learn(self, scheduler: "Scheduler") -> None:
        """Run every serial order, twice to find what clock and chance set.

        Raises CannotExplore if there are too many orders, or if one ends differently each time.
        """
        number = len(scheduler.processes)
        if number > MAX_PROCESSES:
            raise CannotExplore(
                f"{number} processes have too many serial orders to compare with: give an "
                f"invariant, or at most {MAX_PROCESSES} processes."
            )
        self.ends, again = self._run_orders(scheduler), self._run_orders(scheduler)
        for order, end in self.ends.items():
            self.comparison.learn(end, again[order])
        self._tables = frozenset().union(*(each.rows for each in self.ends.values()))
        for order, end in self.ends.items():
            if not any(
                self._form(end, each) == self._form(again[order], each) for each in self._variants()
            ):
                raise CannotExplore(
                    f"One after the other, in the order {_written(order)}, the processes end "
                    "differently each time: give them fixed clocks and seeds, or an invariant."
                )

    def learn_again(self, scheduler: "Scheduler") -> bool:
        """Run the serial orders once more; return whether chance is seen to set more than before.

        At first they ran within a moment, in which a clock of seconds may stand still.
        """
        known = len(self.comparison.by_chance), len(self.comparison.parts_by_chance)
        for order, again in self._run_orders(scheduler).items():
            self.comparison.learn(self.ends[order], again)
        self._forms.clear()
        return known < (len(self.comparison.by_chance), len(self.comparison.parts_by_chance))

    def _run_orders(self, scheduler: "Scheduler") -> dict[Order, EndState]:
        ends, self._is_learning = {}, True
        for order in itertools.permutations(process.number for process in scheduler.processes):
            scheduler.run(lambda ready, *_: next(each for each in order if each in ready))  # noqa: B023 - it runs at once
            assert self._recorded
            ends[order], self.raised[order] = self._recorded
        self._is_learning = False
        return ends

    def begin(self) -> None:
        self.states.begin()
        self._mails = _mails()

    def judge(
        self, outcomes: list[Outcome], functions: Sequence[Function], steps: Sequence[Any]
    ) -> Verdict:
        final = [
            self._alone(function) if self._has_to_try_again(outcome) else outcome
            for outcome, function in zip(outcomes, functions, strict=True)
        ]
        end = self.states.end(tuple(map(outcome_value, final)))
        told = [_told(each) for each in final]
        if self._is_learning:
            self._recorded = end, told
            return Verdict()
        self._note_writers(steps)
        commits = [step.process for step in steps if step.kind in ("COMMIT", "END")]
        self.several |= {each for each in commits if commits.count(each) > 1}
        self.has_mails = self.has_mails or _mails() != self._mails
        verdict = self._compared(end, final, told)
        if not verdict.violation and self.invariant:
            return Verdict(violation_of(self.invariant, final))
        return verdict

    def not_compared(self) -> list[str]:
        """Return the columns and values that clock or chance sets."""
        written = {column for column in self.comparison.by_chance if column[0] in self._tables}
        values = [
            " of ".join(filter(None, (" ".join(path[1:]), f"what process {number + 1} returns")))
            for number, path in sorted(self.comparison.parts_by_chance)
        ]
        return [*(f"{table}.{name}" for table, name in sorted(written)), *values]

    def limits(self) -> list[str]:
        """Return what the comparison leaves out, and may matter."""
        told = [
            f"what others see between the transactions of process {number}, which count as one"
            for number in sorted(self.several)
        ]
        told += ["the mails that a process sends"] if self.has_mails else []
        return told + [
            f"the value of {name}, which clock or chance sets and which two processes write"
            for name, processes in sorted(self.writers.items())
            if len(processes) > 1
        ]

    def _has_to_try_again(self, outcome: Outcome) -> bool:
        if outcome.raised:
            return isinstance(outcome.raised, self.expected)
        return bool(self.try_again and self.try_again(outcome))

    def _alone(self, function: Function) -> Outcome:
        try:
            return Outcome(returned=function())
        except Exception as error:
            return Outcome(raised=error)

    def _compared(self, end: EndState, final: list[Outcome], told: list[str]) -> Verdict:
        for number, (outcome, what) in enumerate(zip(final, told, strict=True), start=1):
            error = outcome.raised
            if error is None or isinstance(error, self.expected):
                continue
            if not any(each[number - 1] == what for each in self.raised.values()):
                return Verdict(f"process {number} raises {raised(error)}", raises=True)
            if all(each[number - 1] == what for each in self.raised.values()):
                always = f"process {number} raises {raised(error)} in every serial order, too"
                return Verdict(always, raises=True)
        if not end.rows.keys() <= self._tables:
            self._tables |= end.rows.keys()
            self._forms.clear()
        if any(self._form(end, each) in self._serial_forms(each) for each in self._variants()):
            return Verdict()
        return Verdict(self._nearest(end))

    def _variants(self) -> list[Column | None]:
        """Return the columns whose ids a returned number may be; None: it is a number."""
        generated = self.states.structure.generated
        return [None, *sorted(each for each in generated if each[0] in self._tables)]

    def _form(self, end: EndState, ids_of: Column | None) -> Form:
        return self.comparison.form(end, self._tables, ids_of)

    def _serial_forms(self, ids_of: Column | None) -> set[Form]:
        if ids_of not in self._forms:
            self._forms[ids_of] = {self._form(each, ids_of) for each in self.ends.values()}
        return self._forms[ids_of]

    def _nearest(self, end: EndState) -> str:
        """Say what no serial order gives, and which of them is nearest."""
        found = {order: self.comparison.differences(end, each) for order, each in self.ends.items()}
        order = min(found, key=lambda each: (len(found[each]), each))
        said = [
            f"{each.place} {each.here}; one after the other it {each.there}"
            for each in found[order]
        ] or ["the rows refer to each other as after no serial order"]
        return f"{', and '.join(said)} (nearest is the order {_written(order)})"

    def _note_writers(self, steps: Sequence[Any]) -> None:
        for table, name in self.comparison.by_chance:
            for step in steps:
                used = words(step.sql)
                bare = table.rpartition(".")[2].strip('"')
                if {name, "update"} <= used and bare in locked_tables(step.sql):
                    self.writers.setdefault(f"{table}.{name}", set()).add(step.process)


def _mails() -> int:
    """Return how many mails Django's tests have kept."""
    return len(getattr(sys.modules.get("django.core.mail"), "outbox", ()))


def _told(outcome: Outcome) -> str:
    """Return the class of an exception, and its constraint; "" if there is none."""
    if outcome.raised is None:
        return ""
    return str([*leaves(outcome_value(outcome))])


def _written(order: Order) -> str:
    return ", ".join(map(str, order))
