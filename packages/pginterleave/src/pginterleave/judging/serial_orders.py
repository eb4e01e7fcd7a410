"""Judges a schedule by the serial orders: it has to end as the processes do one after the other."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.compared_ends import Comparison, Form, Marked
from pginterleave.judging.effects import Also, Effects
from pginterleave.judging.end_states import Column, EndState, EndStates
from pginterleave.judging.judge import (
    Expected,
    Invariant,
    find_violation,
    refuse_other_than_classes,
    write_error,
)
from pginterleave.judging.values import list_leaves, make_outcome_value
from pginterleave.processes.control import Database
from pginterleave.processes.verdict import Function, Judge, Verdict
from pginterleave.sql.id_orders import does_ask_for_order, has_sequence_value
from pginterleave.sql.statements import find_words
from pginterleave.steps import Outcome

MAX_PROCESSES = 4  # which have 24 orders

TryAgain = Callable[[Outcome], object]
Order = tuple[int, ...]  # of the processes
RunInTurn = Callable[[Order], object]  # runs the processes one after the other
BUSY_WORDS = frozenset(("nowait", "skip", "pg_try_advisory_lock", "pg_try_advisory_xact_lock"))


class SerialJudge(Judge):
    """Compares the end of a schedule with the ends of the serial orders."""

    def __init__(
        self,
        database: Database,
        *,
        expected: Expected,
        try_again: TryAgain | None,
        invariant: Invariant | None,
        also: Also | None,
    ) -> None:
        refuse_other_than_classes(expected)
        self.expected = expected
        self.try_again = try_again
        self.invariant = invariant
        self.states = EndStates(database.ask)
        self.comparison = Comparison(self.states)
        others = {alias: EndStates(ask) for alias, ask in database.other_databases().items()}
        self.effects = Effects(also, others)
        self.processes = 0  # how many there are
        self.ends: dict[Order, EndState] = {}
        self.errors: dict[Order, list[str]] = {}  # what each process raised
        self.several: set[int] = set()  # the processes with several transactions that write
        self.unordered: set[str] = set()  # tables whose new ids may have another order
        self._ordered: set[str] = set()  # tables of whose ids a statement asks for the order
        self._seen: set[str] = set()  # statements
        self._recorded: tuple[EndState, list[str]] | None = None  # an end, with its errors
        self._is_learning = False
        self._forms: dict[tuple[object, ...], set[Form]] = {}  # of the serial ends, by the options
        self._tables: frozenset[str] = frozenset()  # that were written

    def learn(self, run_in_turn: RunInTurn, processes: int) -> None:
        """Run every serial order twice, to find the values that differ from run to run."""
        if processes > MAX_PROCESSES:
            raise CannotExplore(
                f"{processes} processes have too many serial orders to compare with: give an "
                f"invariant, or at most {MAX_PROCESSES} processes."
            )
        self.processes = processes
        used = -1
        # Once more if an order has used one more database, whose state was not saved before.
        while used < len(self.effects.used):
            used = len(self.effects.used)
            self.ends = self._run_orders(run_in_turn)
        self.effects.has_learned = True
        again = self._run_orders(run_in_turn)
        for order, end in self.ends.items():
            self.comparison.learn(end, again[order])
        self._tables = frozenset().union(*(end.rows for end in self.ends.values()))
        self._require_same_ends(again)

    def _require_same_ends(self, again: dict[Order, EndState]) -> None:
        """Raise CannotExplore if a serial order has ended differently when it ran `again`."""
        for order, end in self.ends.items():
            if not any(
                self.comparison.make_form(end, self._tables, ids_of)
                == self.comparison.make_form(again[order], self._tables, ids_of)
                for ids_of in self._list_meanings_of_numbers()
            ):
                raise CannotExplore(
                    f"One after the other, in the order {', '.join(map(str, order))}, the "
                    "processes end differently each time: give them fixed clocks and seeds, or an "
                    "invariant."
                )

    def learn_again(self, run_in_turn: RunInTurn) -> bool:
        """Run the serial orders once more; return whether more values differ from run to run.

        The first runs were within a moment, in which a clock of seconds may stand still.
        """
        known = len(self.comparison.by_chance) + len(self.comparison.parts_by_chance)
        for order, again in self._run_orders(run_in_turn).items():
            self.comparison.learn(self.ends[order], again)
        self._forms.clear()
        return len(self.comparison.by_chance) + len(self.comparison.parts_by_chance) > known

    def _run_orders(self, run_in_turn: RunInTurn) -> dict[Order, EndState]:
        ends = {}
        self._is_learning = True
        for order in itertools.permutations(range(1, self.processes + 1)):
            run_in_turn(order)
            assert self._recorded
            ends[order], self.errors[order] = self._recorded
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
            _run_alone(function) if self._has_to_try_again(outcome) else outcome
            for outcome, function in zip(outcomes, functions, strict=True)
        ]
        values = {f"process {n}": make_outcome_value(outcome) for n, outcome in enumerate(final, 1)}
        with_sequences = self._is_learning or bool(self.comparison.sequences)
        end = self.states.read_end(values | self.effects.collect_values(), sequences=with_sequences)
        errors = [_describe_error(outcome) for outcome in final]
        if self._is_learning:
            self._recorded = end, errors
            return Verdict()
        commits = [step.process for step in steps if step.kind in ("COMMIT", "END")]
        self.several |= {process for process in commits if commits.count(process) > 1}
        verdict = self._find_violation(end, final, errors)
        if not verdict.violation:
            return Verdict(find_violation(self.invariant, final)) if self.invariant else verdict
        hint = self._suggest_option(outcomes, steps)
        return verdict._replace(violation=f"{verdict.violation}. {hint}") if hint else verdict

    def list_not_compared(self) -> list[str]:
        """Return the columns and values that clock or chance sets."""
        by_chance = sorted(self.comparison.by_chance)
        names = [f"{table}.{name}" for table, name in by_chance if table in self._tables]
        for name, path in sorted(self.comparison.parts_by_chance):
            whole = f"what {name} returns" if name.startswith("process ") else name
            part = " ".join(path[1:])
            names.append(f"{part} of {whole}" if part else whole)
        return names

    def list_limits(self) -> list[str]:
        """Return what the comparison leaves out, and may matter."""
        between = "what a third program sees between the transactions of process"
        limits = [f"{between} {number}" for number in sorted(self.several)]
        values = self.list_not_compared()
        limits += [f"the value of {value}, which clock or chance sets" for value in values]
        limits += [f"the order of the new ids of {table}" for table in sorted(self.unordered)]
        return limits + self.effects.list_limits()

    def _has_to_try_again(self, outcome: Outcome) -> bool:
        if outcome.raised:
            return isinstance(outcome.raised, self.expected)
        return bool(self.try_again and self.try_again(outcome))

    def _find_violation(self, end: EndState, final: list[Outcome], errors: list[str]) -> Verdict:
        """Judge the exceptions, then the end, and then the order of new ids if that matters."""
        for index, outcome in enumerate(final):
            exception = outcome.raised
            if exception is None or isinstance(exception, self.expected):
                continue
            text = f"process {index + 1} raises {write_error(exception)}"
            is_raised = [serial[index] == errors[index] for serial in self.errors.values()]
            if not any(is_raised):
                return Verdict(text, raises=True)
            if all(is_raised):
                return Verdict(f"{text} in every serial order, too", raises=True)
        if not end.rows.keys() <= self._tables:
            self._tables |= end.rows.keys()
            self._forms.clear()
        grown = [table for table in sorted(end.rows) if self.comparison.list_new_rows(end, table)]
        if self._is_serial(end, grown):
            return Verdict()
        if not grown or not self._is_serial(end):
            return Verdict(self._describe_nearest(end))
        for table in grown:
            reason = self._explain_order(end, table)
            if reason and not self._is_serial(end, [table], "ends"):
                return Verdict(
                    f"the new rows of {table} have their ids in an order as after no serial order, "
                    f"and {reason}"
                )
        unordered = [table for table in grown if not self._is_serial(end, [table])]
        self.unordered |= {*(unordered or grown)}
        return Verdict()

    def _explain_order(self, end: EndState, table: str) -> str:
        """Say why ids given out in another order make a different end; "" without a reason."""
        if table in self._ordered:
            return "a statement asks for their order"
        referring = self.comparison.find_referring_table(end, table)
        return f"{referring} refers to one of them" if referring else ""

    def _is_serial(self, end: EndState, ordered: Sequence[str] = (), mark: Marked = "all") -> bool:
        """Whether a serial order has this end, with the same order of new ids in some tables."""
        for ids_of in self._list_meanings_of_numbers():
            key = ids_of, *ordered, mark
            if key not in self._forms:
                self._forms[key] = {
                    self.comparison.make_form(serial_end, self._tables, ids_of, ordered, mark)
                    for serial_end in self.ends.values()
                }
            form = self.comparison.make_form(end, self._tables, ids_of, ordered, mark)
            if form in self._forms[key]:
                return True
        return False

    def _list_meanings_of_numbers(self) -> list[Column | None]:
        """Return the columns of which a returned number may be an id; None: it is no id."""
        generated = self.states.structure.generated
        return [None, *sorted(column for column in generated if column.table in self._tables)]

    def _describe_nearest(self, end: EndState) -> str:
        """Say how an end differs from that of the nearest serial order."""
        by_order = {}
        for order, serial_end in self.ends.items():
            by_order[order] = [*self.comparison.list_differences(end, serial_end)]
        order = min(by_order, key=lambda order: (len(by_order[order]), order))
        differences = ", and ".join(by_order[order])
        differences = differences or "the rows refer to each other as after no serial order"
        return f"{differences} (nearest is the order {', '.join(map(str, order))})"

    def _suggest_option(self, outcomes: list[Outcome], steps: Sequence[Any]) -> str:
        """Return the option that allows a process to be refused as busy, if it may help; or ""."""
        busy = {step.process for step in steps if not BUSY_WORDS.isdisjoint(find_words(step.sql))}
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
                if does_ask_for_order(step.sql, _strip_schema(table), column):
                    self._ordered.add(table)
            if has_sequence_value(step.sql):
                names = self.states.list_sequences()
                self.comparison.sequences |= {name for name in names if _strip_schema(name) in text}
                self._forms.clear()


def _run_alone(function: Function) -> Outcome:
    try:
        return Outcome(returned=function())
    except Exception as error:
        return Outcome(raised=error)


def _describe_error(outcome: Outcome) -> str:
    """Return the class of an exception, and its constraint; "" if there is none."""
    return str([*list_leaves(make_outcome_value(outcome))]) if outcome.raised else ""


def _strip_schema(name: str) -> str:
    """Return a name as PostgreSQL writes it without its schema and quotes."""
    return name.rpartition(".")[2].strip('"')
