"""Judges a schedule by the serial orders: it has to end as the processes do one after the other."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pginterleave.explorer_errors import CannotExplore, NotDeterministic
from pginterleave.judging.compared_ends import Comparison, Criteria, Labels
from pginterleave.judging.differences import write_order, write_point, write_table
from pginterleave.judging.effects import Also, Effects
from pginterleave.judging.end_states import Column, EndState, EndStates
from pginterleave.judging.judge import (
    Expected,
    Invariant,
    describe_unexpected_exceptions,
    find_violation,
    require_exception_classes,
)
from pginterleave.judging.values import make_outcome_value
from pginterleave.processes.control import Database
from pginterleave.processes.judgement import Function, Judge, Judgement
from pginterleave.sql.id_orders import does_ask_for_order, has_sequence_value
from pginterleave.sql.statements import find_names
from pginterleave.steps import Outcome

MAX_COMPARED_PROCESSES = 4  # which have 24 serial orders

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
        ignored_tables: frozenset[str],
    ) -> None:
        require_exception_classes(expected)
        self.expected = expected
        self.try_again = try_again
        self.invariant = invariant
        self.states = EndStates(database.ask, ignored_tables)
        self.comparison = Comparison(self.states)
        others = {alias: EndStates(ask) for alias, ask in database.other_databases().items()}
        self.effects = Effects(also, others)
        self.reference = ""  # before "one after the other" in a sentence, if like= is given
        self.processes = 0  # how many there are: run_serial_orders() sets it
        self.ends: dict[Order, EndState] = {}  # of the serial orders
        self.several_commits: set[int] = set()  # the processes with several transactions
        self.unordered: set[str] = set()  # tables whose new ids may have another order
        self.read_as_ids: set[str] = set()  # tables whose new ids a returned number may be
        self._queried_orders: set[str] = set()  # tables of whose ids a statement asks for the order
        self._noted_statements: set[str] = set()
        self._is_serial_run = False
        self._last_end: EndState | None = None
        self._serial_labels: dict[Criteria, set[Labels]] = {}
        self._tables: frozenset[str] = frozenset()  # that were written

    def run_serial_orders(self, run_in_turn: RunInTurn, processes: int) -> None:
        """Run every serial order twice: keep the ends, and find what differs from run to run."""
        if processes > MAX_COMPARED_PROCESSES:
            raise CannotExplore(
                f"{processes} processes have too many serial orders to compare with: give an "
                f"invariant, or at most {MAX_COMPARED_PROCESSES} processes."
            )
        self.processes = processes
        used_before = -1  # fewer than any number, to run at least once
        # Run again if an order was the first to use a database: earlier ends lack its rows.
        while used_before < len(self.effects.used):
            used_before = len(self.effects.used)
            self.ends = self._run_orders(run_in_turn)
        self.effects.compares_new = False
        second_ends = self._run_orders(run_in_turn)
        for order, end in self.ends.items():
            self.comparison.note_varying(end, second_ends[order])
        self._tables = frozenset().union(*(end.rows for end in self.ends.values()))
        for order, end in self.ends.items():
            if not self._are_equal(end, second_ends[order]):
                raise NotDeterministic(self._describe_change(order, end, second_ends[order]))

    def run_serial_orders_again(self, run_in_turn: RunInTurn) -> bool:
        """Run the serial orders once more; return whether more values differ from run to run.

        The first runs were within a moment, in which a clock of seconds may stand still.
        """
        comparison = self.comparison
        before = comparison.get_varying()
        for order, end in self._run_orders(run_in_turn).items():
            comparison.note_varying(self.ends[order], end)
        self._serial_labels.clear()
        return before != comparison.get_varying()

    def _run_orders(self, run_in_turn: RunInTurn) -> dict[Order, EndState]:
        """Run every serial order, and return how each ends: judge() sets `_last_end`."""
        ends = {}
        self._is_serial_run = True
        for order in itertools.permutations(range(1, self.processes + 1)):
            run_in_turn(order)
            assert self._last_end
            ends[order] = self._last_end
        self._is_serial_run = False
        return ends

    def begin(self) -> None:
        self.states.begin()
        self.effects.begin()

    def note(self, effect: Any) -> None:
        if isinstance(effect, str):
            self.effects.calls[effect] = None
        else:
            self.effects.mocks.note(effect)

    def judge(
        self, outcomes: list[Outcome], functions: Sequence[Function], steps: Sequence[Any]
    ) -> Judgement:
        """Compare how a schedule ends with the serial orders; keep the end of a serial order."""
        self._note_statements(steps)
        final_outcomes = [
            _run_alone(function) if self._has_to_try_again(outcome) else outcome
            for outcome, function in zip(outcomes, functions, strict=True)
        ]
        end = self._read_end(final_outcomes)
        if self._is_serial_run:
            self._last_end = end
            return Judgement()
        commits = Counter(step.process for step in steps if step.kind in ("COMMIT", "END"))
        self.several_commits |= {process for process in commits if commits[process] > 1}
        judgement = self._find_violation(end, final_outcomes)
        if not judgement.violation:
            return Judgement(
                find_violation(self.invariant, final_outcomes) if self.invariant else ""
            )
        hint = self._suggest_option(outcomes, steps) or self._suggest_key(end)
        return (
            judgement._replace(violation=f"{judgement.violation}\n\n{hint}") if hint else judgement
        )

    def _read_end(self, outcomes: list[Outcome]) -> EndState:
        """Return the rows, the outcomes and the other effects after a schedule."""
        values = {f"process {n}": make_outcome_value(o) for n, o in enumerate(outcomes, start=1)}
        values |= self.effects.collect_values()
        needs_sequences = self._is_serial_run or bool(self.comparison.sequences)
        return self.states.read_end(values, with_sequences=needs_sequences)

    def list_not_compared(self) -> list[str]:
        """Return the columns and values that clock or chance sets."""
        columns = sorted(self.comparison.chance_columns)
        names = [f"{table}.{name}" for table, name in columns if table in self._tables]
        for name, path in sorted(self.comparison.chance_parts):
            value = f"what {name} returns" if name.startswith("process ") else name
            part = " ".join(path[1:])  # a path begins with the value itself
            names.append(f"{part} of {value}" if part else value)
        return names

    def list_limits(self) -> list[str]:
        """Return what the comparison leaves out, and may matter."""
        between = "what a third program sees between the transactions of process"
        limits = [f"{between} {number}" for number in sorted(self.several_commits)]
        values = self.list_not_compared()
        limits += [f"the value of {value}, which clock or chance sets" for value in values]
        limits += [f"the order of the new ids of {table}" for table in sorted(self.unordered)]
        is_id = "whether a returned number is the id of a new row of"
        limits += [f"{is_id} {table}" for table in sorted(self.read_as_ids)]
        return limits + self.effects.list_limits()

    def _has_to_try_again(self, outcome: Outcome) -> bool:
        """Whether the caller of a process would call it again after this outcome."""
        if outcome.raised:
            return isinstance(outcome.raised, self.expected)
        return bool(self.try_again and self.try_again(outcome))

    def _find_violation(self, end: EndState, outcomes: list[Outcome]) -> Judgement:
        """Judge the exceptions, then the end, and then the order of new ids if that matters."""
        for process, text in describe_unexpected_exceptions(outcomes, self.expected).items():
            name = f"process {process}"
            raised = end.values[name]
            raises_too = [serial.values[name] == raised for serial in self.ends.values()]
            if not any(raises_too):
                return Judgement(
                    f"{text.rstrip('.')}. One after the other, it does not.", raises=True
                )
            if all(raises_too):
                return Judgement(f"{text.rstrip('.')}.", raises=True)
        self._tables = self._tables.union(end.rows)
        tables = [table for table in sorted(end.rows) if self.comparison.list_new_rows(end, table)]
        if self._is_serial(end, tables):
            return Judgement()
        if self._is_serial(end):
            return self._judge_order_of_ids(end, tables)
        return Judgement(self._describe_nearest(end))

    def _judge_order_of_ids(self, end: EndState, tables: list[str]) -> Judgement:
        """Judge an end that differs from the serial ones only in the order of new ids."""
        for table in tables:
            reason = self._explain_order(end, table)
            if reason and not self._is_serial(end, [table], only_first_and_last=True):
                return Judgement(
                    f"the new rows of {table} have their ids in an order that no serial order "
                    f"gives, and {reason}."
                )
        unordered = [table for table in tables if not self._is_serial(end, [table])]
        self.unordered |= {*(unordered or tables)}
        return Judgement()

    def _explain_order(self, end: EndState, table: str) -> str:
        """Say why the order of a table's new ids matters; return "" if it does not."""
        if table in self._queried_orders:
            return "a statement asks for their order"
        referring = self.comparison.find_referring_table(end, table)
        return f"{referring} refers to one of them" if referring else ""

    def _is_serial(
        self, end: EndState, ordered: Sequence[str] = (), *, only_first_and_last: bool = False
    ) -> bool:
        """Whether a serial order has an equal end, with the new ids of `ordered` in that order."""
        for number_column in self._list_number_columns():
            criteria = Criteria(self._tables, number_column, tuple(ordered), only_first_and_last)
            if criteria not in self._serial_labels:
                labels = {self.comparison.make_labels(e, criteria) for e in self.ends.values()}
                self._serial_labels[criteria] = labels
            if self.comparison.make_labels(end, criteria) in self._serial_labels[criteria]:
                if number_column:
                    self.read_as_ids.add(number_column.table)
                return True
        return False

    def _are_equal(self, end: EndState, other: EndState) -> bool:
        """Whether two ends are equal but for new ids and what differs from run to run."""
        criteria = [Criteria(self._tables, column) for column in self._list_number_columns()]
        make_labels = self.comparison.make_labels
        return any(make_labels(end, choice) == make_labels(other, choice) for choice in criteria)

    def _list_number_columns(self) -> list[Column | None]:
        """Return the columns of which a returned number may be an id; None: it is no id."""
        generated = self.states.structure.generated
        return [None, *sorted(column for column in generated if column.table in self._tables)]

    def _describe_nearest(self, end: EndState) -> str:
        """Say how an end differs from that of the nearest serial order."""
        by_order = {}
        for order, serial_end in self.ends.items():
            by_order[order] = [*self.comparison.list_differences(end, serial_end)]
        order = min(by_order, key=lambda order: (len(by_order[order]), order))
        differences = by_order[order]
        if not differences:  # all values are equal: some rows refer to other rows
            return self._describe_references(end)
        table = write_table(differences, "here", f"{self.reference}{write_order(order)}")
        return f"{write_point(differences, order, self.reference)}\n\n{table}"

    def _describe_references(self, end: EndState) -> str:
        """Say which columns refer to other rows than after any serial order, as far as known."""
        references = self.states.structure.references
        names = [f"{c.table}.{c.name}" for c in sorted(references) if c.table in end.rows]
        what = f"{' or '.join(names)} refers to another row" if names else "ids are exchanged"
        return f"{what} than after any serial order."

    def _describe_change(self, order: Order, first: EndState, second: EndState) -> str:
        """Say how two ends of one serial order differ."""
        # The comparison leaves out the values that have differed in any order.
        differences = [*Comparison(self.states).list_value_differences(first, second)]
        differences += self.comparison.list_differences(first, second)
        what = f"twice {write_order(order)}, the functions end differently"
        if not differences:
            return f"Run {what}: the rows refer to each other in another way."
        change = differences[0]
        table = write_table(differences, "first", "second")
        calls = "".join(f"\n{call} may differ, too." for call in self.effects.calls)
        return (
            f"Run {what}: {change.what} {change.verb}{change.here} first, and then {change.there}."
            f"\n\n{table}\n{calls}\n"
            "Let setup= undo what the functions keep outside of the database, such as a cache "
            "(setup=cache.clear), and give them fixed keys, clocks and seeds. Or give an invariant."
        )

    def _suggest_option(self, outcomes: list[Outcome], steps: Sequence[Any]) -> str:
        """Suggest `expected` or `try_again` if a process may have found a row locked; or ""."""
        busy = {step.process for step in steps if not BUSY_WORDS.isdisjoint(find_names(step.sql))}
        for number in sorted(busy, key=lambda number: (not outcomes[number - 1].raised, number)):
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

    def _suggest_key(self, end: EndState) -> str:
        """Suggest a ForeignKey if other numbers are new ids, and these differ; or return ""."""
        comparison = self.comparison
        for column in filter(None, self._list_number_columns()):
            criteria = Criteria(self._tables, column, has_ids_in_rows=True)
            labels = comparison.make_labels(end, criteria)
            new_ids = comparison.list_new_ids(end, column)
            for serial in self.ends.values():
                is_equal = comparison.make_labels(serial, criteria) == labels
                if is_equal and comparison.list_new_ids(serial, column) != new_ids:
                    return (
                        f"Only numbers differ that may be ids of new rows of {column.table}: they "
                        "are compared as ids in a ForeignKey, which may have db_constraint=False, "
                        "and not at all in a table of Options(ignored_tables=…)"
                    )
        return ""

    def _note_statements(self, steps: Sequence[Any]) -> None:
        """Note the ids of whose order a statement asks, and the sequences that it reads or sets."""
        for step in steps:
            if step.database:
                self.effects.note_database(step.database)
            statement = f"{step.sql} {step.params}"
            if statement in self._noted_statements:
                continue
            self._noted_statements.add(statement)
            for table, column in self.states.structure.generated:
                if does_ask_for_order(step.sql, _strip_schema(table), column):
                    self._queried_orders.add(table)
            if has_sequence_value(step.sql):
                for name in self.states.list_sequences():
                    if _strip_schema(name) in statement:
                        self.comparison.sequences.add(name)
                self._serial_labels.clear()


def _run_alone(function: Function) -> Outcome:
    try:
        return Outcome(returned=function())
    except Exception as error:
        return Outcome(raised=error)


def _strip_schema(name: str) -> str:
    """Return a name without its schema and quotes; PostgreSQL has written it."""
    return name.rpartition(".")[2].strip('"')
