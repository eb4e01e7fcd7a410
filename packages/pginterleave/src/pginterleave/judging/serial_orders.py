"""Judges a schedule by the serial orders: it has to end as the processes do one after the other."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.compared_ends import Comparison, Form, Places
from pginterleave.judging.effects import Also, Effects
from pginterleave.judging.end_states import Column, EndState, EndStates
from pginterleave.judging.judge import (
    Expected,
    Invariant,
    raised,
    refuse_other_than_classes,
    violation_of,
)
from pginterleave.judging.values import leaves, outcome_value
from pginterleave.processes.verdict import Function, Verdict
from pginterleave.sql.id_orders import asks_for_order, uses_sequence_value
from pginterleave.sql.statements import words
from pginterleave.steps import Outcome

MAX_PROCESSES = 4  # which have 24 orders

TryAgain = Callable[[Outcome], object]
Order = tuple[int, ...]  # of the processes
RunInTurn = Callable[[Order], object]  # runs the processes one after the other
BUSY_WORDS = frozenset(("nowait", "skip", "pg_try_advisory_lock", "pg_try_advisory_xact_lock"))


class SerialJudge:
    """Compares the end of a schedule with the ends of the serial orders.

    Args:
        ask: runs a query on the caller's connection.
        expected: the exceptions by which a process is refused; it then runs once more alone.
        try_again: whether an outcome says that the process has to run once more alone.
        invariant: is judged besides.
        also: what is compared besides rows and outcomes.
        others: run queries on other databases that processes may use, by alias.
    """

    def __init__(
        self,
        ask: Callable[..., list[Any]],
        *,
        expected: Expected,
        try_again: TryAgain | None,
        invariant: Invariant | None,
        also: Also | None,
        others: Mapping[str, Callable[[str], list[Any]]],
    ) -> None:
        refuse_other_than_classes(expected)
        self.expected, self.try_again, self.invariant = expected, try_again, invariant
        self.states = EndStates(ask)
        self.comparison = Comparison(self.states)
        self.effects = Effects(
            also, {name: EndStates(ask_other) for name, ask_other in others.items()}
        )
        self.ends: dict[Order, EndState] = {}
        self.raised: dict[Order, list[str]] = {}  # what each process raised
        self.several: set[int] = set()  # the processes with several transactions that write
        self.unordered: set[str] = set()  # tables whose new ids may have another order
        self._ordered: set[str] = set()  # tables of whose ids a statement asks for the order
        self._seen: set[str] = set()  # statements
        self._recorded: tuple[EndState, list[str]] | None = None
        self._is_learning = False
        self._forms: dict[tuple[object, ...], set[Form]] = {}
        self._tables: frozenset[str] = frozenset()

    def learn(self, run_in_turn: RunInTurn, processes: int) -> None:
        """Run every serial order, twice to find what clock and chance set.

        Raises CannotExplore if there are too many orders, or if one ends differently each time.
        """
        if processes > MAX_PROCESSES:
            raise CannotExplore(
                f"{processes} processes have too many serial orders to compare with: give an "
                f"invariant, or at most {MAX_PROCESSES} processes."
            )
        used = -1
        while used < len(self.effects.used):  # a database that only the last order uses
            used = len(self.effects.used)
            self.ends = self._run_orders(run_in_turn, processes)
        self.effects.has_learned = True
        again = self._run_orders(run_in_turn, processes)
        for order, end in self.ends.items():
            self.comparison.learn(end, again[order])
        self._tables = frozenset().union(*(end.rows for end in self.ends.values()))
        for order, end in self.ends.items():
            if not any(
                self._form(end, ids_of) == self._form(again[order], ids_of)
                for ids_of in self._variants()
            ):
                raise CannotExplore(
                    f"One after the other, in the order {_written(order)}, the processes end "
                    "differently each time: give them fixed clocks and seeds, or an invariant."
                )

    def learn_again(self, run_in_turn: RunInTurn) -> bool:
        """Run the serial orders once more; return whether chance is seen to set more than before.

        At first they ran within a moment, in which a clock of seconds may stand still.
        """
        known = len(self.comparison.by_chance), len(self.comparison.parts_by_chance)
        for order, again in self._run_orders(run_in_turn, len(next(iter(self.ends)))).items():
            self.comparison.learn(self.ends[order], again)
        self._forms.clear()
        return known < (len(self.comparison.by_chance), len(self.comparison.parts_by_chance))

    def _run_orders(self, run_in_turn: RunInTurn, processes: int) -> dict[Order, EndState]:
        ends = {}
        self._is_learning = True
        for order in itertools.permutations(range(1, processes + 1)):
            run_in_turn(order)
            assert self._recorded
            ends[order], self.raised[order] = self._recorded
        self._is_learning = False
        return ends

    def begin(self) -> None:
        self.states.begin()
        self.effects.begin()

    def note_call(self, what: str) -> None:
        self.effects.calls[what] = None

    def judge(
        self, outcomes: list[Outcome], functions: Sequence[Function], steps: Sequence[Any]
    ) -> Verdict:
        self._note_statements(steps)
        final = [
            self._alone(function) if self._has_to_try_again(outcome) else outcome
            for outcome, function in zip(outcomes, functions, strict=True)
        ]
        values = {
            f"process {n}": outcome_value(outcome) for n, outcome in enumerate(final, start=1)
        }
        end = self.states.end(
            values | self.effects.values(),
            sequences=self._is_learning or bool(self.comparison.sequences),
        )
        errors = [_error(outcome) for outcome in final]
        if self._is_learning:
            self._recorded = end, errors
            return Verdict()
        commits = [step.process for step in steps if step.kind in ("COMMIT", "END")]
        self.several |= {process for process in commits if commits.count(process) > 1}
        verdict = self._compared(end, final, errors)
        if not verdict.violation and self.invariant:
            return Verdict(violation_of(self.invariant, final))
        if verdict.violation and (hint := self._hint(outcomes, steps)):
            return verdict._replace(violation=f"{verdict.violation}. {hint}")
        return verdict

    def not_compared(self) -> list[str]:
        """Return the columns and values that clock or chance sets."""
        written = {column for column in self.comparison.by_chance if column[0] in self._tables}
        values = []
        for name, path in sorted(self.comparison.parts_by_chance):
            whole = f"what {name} returns" if name.startswith("process ") else name
            values.append(" of ".join(filter(None, (" ".join(path[1:]), whole))))
        return [*(f"{table}.{name}" for table, name in sorted(written)), *values]

    def limits(self) -> list[str]:
        """Return what the comparison leaves out, and may matter."""
        return [
            *(
                f"what a third program sees between the transactions of process {number}"
                for number in sorted(self.several)
            ),
            *(f"the value of {value}, which clock or chance sets" for value in self.not_compared()),
            *(f"the order of the new ids of {table}" for table in sorted(self.unordered)),
            *self.effects.limits(),
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

    def _compared(self, end: EndState, final: list[Outcome], errors: list[str]) -> Verdict:
        for number, (outcome, what) in enumerate(zip(final, errors, strict=True), start=1):
            error = outcome.raised
            if error is None or isinstance(error, self.expected):
                continue
            if not any(serial_errors[number - 1] == what for serial_errors in self.raised.values()):
                return Verdict(f"process {number} raises {raised(error)}", raises=True)
            if all(serial_errors[number - 1] == what for serial_errors in self.raised.values()):
                always = f"process {number} raises {raised(error)} in every serial order, too"
                return Verdict(always, raises=True)
        if not end.rows.keys() <= self._tables:
            self._tables |= end.rows.keys()
            self._forms.clear()
        grown = [table for table in sorted(end.rows) if self.comparison.new_rows(end, table)]
        if self._is_serial(end, grown):
            return Verdict()
        if not grown or not self._is_serial(end):
            return Verdict(self._nearest(end))
        for table in grown:
            if (why := self._order_matters(end, table)) and not self._is_serial(
                end, [table], "ends"
            ):
                return Verdict(
                    f"the new rows of {table} have their ids in an order as after no serial order, "
                    f"and {why}"
                )
        moved = [table for table in grown if not self._is_serial(end, [table])]
        self.unordered |= {*(moved or grown)}
        return Verdict()

    def _order_matters(self, end: EndState, table: str) -> str:
        """Say why the order of the new ids of a table is part of the end; "" if it is not known."""
        if table in self._ordered:
            return "a statement asks for their order"
        referring = self.comparison.referring(end, table)
        return f"{referring} refers to one of them" if referring else ""

    def _is_serial(
        self, end: EndState, ordered: Sequence[str] = (), places: Places = "all"
    ) -> bool:
        """Whether an end is that of a serial order, with the order of some tables' new ids."""
        return any(
            self._form(end, ids_of, ordered, places) in self._serial_forms(ids_of, ordered, places)
            for ids_of in self._variants()
        )

    def _variants(self) -> list[Column | None]:
        """Return the columns whose ids a returned number may be; None: it is a number."""
        generated = self.states.structure.generated
        return [None, *sorted(column for column in generated if column[0] in self._tables)]

    def _form(
        self,
        end: EndState,
        ids_of: Column | None,
        ordered: Sequence[str] = (),
        places: Places = "all",
    ) -> Form:
        return self.comparison.form(end, self._tables, ids_of, ordered=ordered, places=places)

    def _serial_forms(
        self, ids_of: Column | None, ordered: Sequence[str], places: Places
    ) -> set[Form]:
        key = ids_of, *ordered, places
        if key not in self._forms:
            ends = self.ends.values()
            self._forms[key] = {self._form(end, ids_of, ordered, places) for end in ends}
        return self._forms[key]

    def _nearest(self, end: EndState) -> str:
        """Say what no serial order gives, and which of them is nearest."""
        by_order = {
            order: self.comparison.differences(end, serial_end)
            for order, serial_end in self.ends.items()
        }
        order = min(by_order, key=lambda order: (len(by_order[order]), order))
        differences = [
            f"{difference.place} {difference.here}; one after the other it {difference.there}"
            for difference in by_order[order]
        ] or ["the rows refer to each other as after no serial order"]
        return f"{', and '.join(differences)} (nearest is the order {_written(order)})"

    def _hint(self, outcomes: list[Outcome], steps: Sequence[Any]) -> str:
        """Return how to say that a process has found a row busy, if one may have; or ""."""
        busy = {step.process for step in steps if not BUSY_WORDS.isdisjoint(words(step.sql))}
        for number in sorted(busy):
            outcome = outcomes[number - 1]
            if outcome.raised and not isinstance(outcome.raised, self.expected):
                name = type(outcome.raised).__name__
                return f"If process {number} may be refused as busy, give expected={name}"
            if not outcome.raised and not outcome.returned and not self.try_again:
                return (
                    f"If process {number} says that it found nothing free, give "
                    f"try_again=lambda outcome: outcome.returned == {outcome.returned!r}"
                )
        return ""

    def _note_statements(self, steps: Sequence[Any]) -> None:
        """Note of which ids a statement asks for the order, and which sequences are counters."""
        for step in steps:
            if step.database:
                self.effects.note_database(step.database)
            text = f"{step.sql} {step.params}"
            if text in self._seen:
                continue
            self._seen.add(text)
            for table, column in self.states.structure.generated:
                if asks_for_order(step.sql, _bare(table), column):
                    self._ordered.add(table)
            if uses_sequence_value(step.sql):
                self.comparison.sequences |= {*self._named_sequences(text)}
                self._forms.clear()

    def _named_sequences(self, text: str) -> Iterator[str]:
        return (name for name in self.states.sequence_names() if _bare(name) in text)


def _error(outcome: Outcome) -> str:
    """Return the class of an exception, and its constraint; "" if there is none."""
    if outcome.raised is None:
        return ""
    return str([*leaves(outcome_value(outcome))])


def _bare(name: str) -> str:
    """Return a name as PostgreSQL writes it without its schema and quotes."""
    return name.rpartition(".")[2].strip('"')


def _written(order: Order) -> str:
    return ", ".join(map(str, order))
