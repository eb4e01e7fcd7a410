"""The meaning of the names in a statement, from PostgreSQL's catalogue."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from pginterleave.sql import catalogue_queries, statements
from pginterleave.sql.dependent_steps import ENDS
from pginterleave.sql.lock_orders import LockOrders
from pginterleave.sql.rows_touched import Tables
from pginterleave.sql.timeouts import find_timeouts_set
from pginterleave.steps import Step

# Not every order of the times at which transactions began is explored.
CLOCK_LIMIT = "which transaction began first, as their clocks tell"


class Transaction(NamedTuple):
    """A transaction of a schedule."""

    process: int
    last_step: int
    locked: frozenset[str]  # tables


class HiddenCall(NamedTuple):
    """A call that a statement does not name: see `catalogue_queries.HIDDEN_CALLS`."""

    name: str  # in the statement: a table, a type, an operator or a function
    kind: str  # of the called object
    called: str  # the name of the called object
    by_writing: bool  # whether only statements that write make the call


class Catalogue:
    """The special names, which do not stand for plain tables, and the limits of the exploration."""

    def __init__(self) -> None:
        self.special_names: frozenset[str] = frozenset()  # functions, views, operators, …
        self.special_in_writes: frozenset[str] = frozenset()  # such as of tables with triggers
        self.limits: dict[str, None] = {}  # what is not explored, in words, in the order noted
        self.unobserved: dict[str, None] = {}  # the senders of statements that were not observed
        self.unseen_commits: dict[str, None] = {}  # statements that commit within their step
        self.unexplored: dict[str, None] = {}  # the orders that PostgreSQL decides by chance
        self.tables = Tables()
        self.reduced = False  # whether only one of several equivalent orders runs
        self._functions: list[str] = []
        self._event_triggers: list[str] = []
        self._hidden_calls: list[HiddenCall] = []
        self._has_learned = False
        self._noted: set[tuple[str, bool, bool]] = set()  # the arguments of note_statement()
        self._lock_orders = LockOrders(self.tables)

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        """Read the catalogue once, after the first `setup`, which may create objects."""
        if self._has_learned:
            return
        self.tables.learn(ask)
        named = list(ask(catalogue_queries.SPECIAL_NAMES))
        self._functions = sorted(name for name, kind, _ in named if kind == "function")
        self._event_triggers = [trigger for _, kind, trigger in named if kind == "event trigger"]
        self._hidden_calls = [HiddenCall(*call) for call in ask(catalogue_queries.HIDDEN_CALLS)]
        # A step that reads the clock, such as a write with a default, depends on every step that
        # reads the clock. TRUNCATE depends on every step. So neither makes a name special.
        special_calls = [
            call
            for call in self._hidden_calls
            if call.kind != "trigger of TRUNCATE" and not (call.kind == "clock" and call.by_writing)
        ]
        always = [call.name for call in special_calls if not call.by_writing]
        relations = [name for name, kind, _ in named if kind != "event trigger"]
        self.special_names = frozenset((*relations, *always))
        self.special_in_writes = frozenset(call.name for call in special_calls)
        self._has_learned = True

    def note_statement(self, sql: str, params: Any, *, autocommits: bool, unordered: bool) -> None:
        """Note which parts of a statement are not explored.

        `autocommits` says that no transaction is open. `unordered` says that one is open, and that
        not every order in which it and others begin is explored.
        """
        for name in find_timeouts_set(f"{sql} {params or ''}"):
            self.note_unchecked(f"when {name} ends a statement or a session, which the code sets")
        if unordered and statements.has_clock_text(f"{params}"):
            self.note_unchecked(CLOCK_LIMIT)
        if (sql, autocommits, unordered) in self._noted:
            return
        self._noted.add((sql, autocommits, unordered))
        for name in self._functions:
            if statements.has_any_name(sql, {name}):
                self.note_unchecked(f"the statements in the function {name} are one step")
        self._note_hidden_calls(sql, unordered)
        if self.reduced and statements.has_clock_comparison(sql):
            self.note_unchecked("that a time passes with which a statement compares the clock")
        kind = statements.find_kind(sql)
        words = statements.find_words(sql)
        if kind in statements.DEFINITIONS or (kind in ("SELECT", "WITH") and "into" in words):
            for name in self._event_triggers:
                self.note_unchecked(f"the event trigger {name} is part of the step that fires it")
        if kind == "LISTEN":
            self.note_unchecked("which notifications LISTEN receives, and when")
        if kind == "NOTIFY" or "pg_notify" in statements.find_names(sql):
            self.note_unchecked("the notifications that NOTIFY sends")
        if kind in ("CALL", "DO"):
            commits = ", with their COMMIT" if autocommits else ""
            self.note_unchecked(f"the statements in {kind} are one step{commits}")
        kinds = map(statements.find_kind, statements.split_statements(sql))
        if len([kind for kind in kinds if kind not in statements.CONTROL]) > 1:
            what = f"several statements in one execute() are one step: {_shorten(sql)}"
            self.note_unchecked(what)

    def _note_hidden_calls(self, sql: str, unordered: bool) -> None:
        """Note the calls that a statement does not name: by an operator, a view, a trigger, …"""
        may_write = statements.may_write(sql)
        has_clock = statements.has_transaction_clock(sql)
        for call in self._hidden_calls:
            if (call.by_writing and not may_write) or not statements.has_any_name(sql, {call.name}):
                continue
            if call.kind == "clock":
                has_clock = True
            elif not call.kind.startswith("trigger"):
                what = f"the {call.kind} {call.called} is part of the step that uses {call.name}"
                self.note_unchecked(what)
            # Only TRUNCATE … CASCADE also truncates the tables that refer to these.
            elif call.kind == "trigger" or {"truncate", "cascade"} <= statements.find_words(sql):
                self.note_unchecked(f"the trigger {call.called} is part of the step that fires it")
        if unordered and has_clock:
            self.note_unchecked(CLOCK_LIMIT)

    def note_unseen_commit(self, sql: str, *, single: bool) -> None:
        """Note SQL with a COMMIT in its step that others can notice, as nothing is proven then.

        `single` says that the SQL is not sent for several rows of parameters.
        """
        if statements.has_unseen_commit(sql, self.special_names, single=single):
            self.unseen_commits[_shorten(sql)] = None

    def note_locks(self, sql: str, rows: int, process: int) -> None:
        """Note which orders of a statement's locks on `rows` rows are not explored."""
        self.limits |= dict.fromkeys(self._lock_orders.note_statement(sql, rows, process))

    def note_schedule(self, steps: Sequence[Step], read_committed: Sequence[bool]) -> None:
        """Note after a schedule what no order of the steps shows.

        `read_committed` says of each process whether each of its statements takes a new snapshot.
        """
        self.limits |= dict.fromkeys(self._lock_orders.note_schedule(steps))
        if any(read_committed):
            self._note_commits_before_locks(steps)
        sets_level = any("isolation" in statements.find_words(step.sql) for step in steps)
        if sets_level or not all(read_committed):
            self._note_serialization_failures(steps)

    def _note_commits_before_locks(self, steps: Sequence[Step]) -> None:
        """Note the statements for which two commits between their snapshot and their locks matter.

        One such commit is explored: the other transaction is open when the statement takes its
        snapshot, and the statement then waits for it.
        """
        transactions = _list_transactions(steps)
        for step in steps:
            read, locked = self.tables.find_read_before_locked(step.sql)
            others = [other for other in transactions if other.process != step.process]
            for first, second in permutations(others, 2):
                # A process commits its transactions in one order, two processes in both.
                if first.process == second.process and first.last_step > second.last_step:
                    continue
                if first.locked & read and second.locked & locked:
                    self.note_unchecked(
                        "what others commit between the snapshot of one statement and its locks: "
                        + _shorten(step.sql)
                    )

    def _note_serialization_failures(self, steps: Sequence[Step]) -> None:
        """Note the statements with NOWAIT or SKIP LOCKED, if one snapshot serves a transaction.

        Another process may commit between the snapshot and the locks of the statement. PostgreSQL
        then refuses to lock a row. The refusal of a statement that waits is explored.
        """
        for step in steps:
            if not statements.locks_without_waiting(step.sql):
                continue
            tables = statements.find_locked_tables(step.sql)
            others = [other for other in steps if other.process != step.process]
            if any(tables & statements.find_locked_tables(other.sql) for other in others):
                self.note_unchecked(
                    "a serialization failure, if another process commits between the snapshot and "
                    f"the locks of one statement: {_shorten(step.sql)}"
                )

    def note_unchecked(self, what: str) -> None:
        self.limits[what] = None

    def note_unobserved(self, what: str) -> None:
        """Note a sender of statements that were not observed: nothing is proven then."""
        self.unobserved[what] = None


def _list_transactions(steps: Sequence[Step]) -> list[Transaction]:
    transactions = []
    locked: dict[int, frozenset[str]] = defaultdict(frozenset)  # by process, in its transaction
    for number, step in enumerate(steps):
        locked[step.process] |= statements.find_locked_tables(step.sql)
        if step.kind in ENDS:
            transactions.append(Transaction(step.process, number, locked.pop(step.process)))
    still_open = [Transaction(process, len(steps), tables) for process, tables in locked.items()]
    return transactions + still_open


def _shorten(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:59]}…"
