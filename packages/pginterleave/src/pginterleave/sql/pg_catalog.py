"""The meaning of the names in a statement, from PostgreSQL's catalogue."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pginterleave.sql import catalogue_queries, statements
from pginterleave.sql.dependent_steps import ENDS
from pginterleave.sql.lock_orders import LockOrders
from pginterleave.sql.rows_touched import Tables
from pginterleave.sql.timeouts import timeouts_set
from pginterleave.steps import Step


class HiddenCall(NamedTuple):
    """A call that a statement does not name: see `catalogue_queries.HIDDEN_CALLS`."""

    parts: frozenset[str]  # the words of the name
    name: str  # the name in the statement, such as an operator's
    kind: str  # of the called object
    called: str
    by_writing: bool  # whether only statements that write make the call


class Catalogue:
    """The names that do not stand for plain tables, and the limits of the exploration."""

    def __init__(self) -> None:
        self.special: frozenset[str] = frozenset()  # functions, views, operators that call one, …
        self.special_writes: frozenset[str] = frozenset()  # in writes: tables with triggers, …
        self.limits: dict[str, None] = {}  # in the order in which they were noted
        self.unobserved: dict[str, None] = {}  # the senders of statements that were not observed
        self.unseen_commits: dict[str, None] = {}  # statements that commit within their step
        self.tables = Tables()
        self._functions: dict[str, frozenset[str]] = {}  # the words of each name
        self._event_triggers: list[str] = []
        self._hidden: list[HiddenCall] = []
        self.reduced = False  # whether only one of several equivalent orders runs
        self._known = False
        self._seen: set[tuple[str, bool, bool]] = set()
        self._orders = LockOrders(self.tables)
        self._gaps: set[str] = set()  # the statements that note_schedule() has noted
        self.unexplored: dict[str, None] = {}  # the orders that PostgreSQL decides by chance

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        """Read the catalogue once, after the first `setup`, which may create objects."""
        if self._known:
            return
        self.tables.learn(ask)
        rows = list(ask(catalogue_queries.SPECIAL_NAMES))
        self._functions = {
            name: _parts(name) for name, what, _ in sorted(rows) if what == "function"
        }
        self._event_triggers = [name for _, what, name in rows if what == "event trigger"]
        self._hidden = [
            HiddenCall(_parts(name), name, *rest)
            for name, *rest in ask(catalogue_queries.HIDDEN_CALLS)
        ]
        # A step that reads the clock, such as a write with a default, depends on every step that
        # reads the clock. TRUNCATE depends on every step. So neither makes a name special.
        called = [
            call
            for call in self._hidden
            if not (call.kind == "clock" and call.by_writing) and call.kind != "trigger of TRUNCATE"
        ]
        special = [_parts(name) for name, *_ in rows]
        special += [call.parts for call in called if not call.by_writing]
        self.special = frozenset().union(*special)
        self.special_writes = frozenset().union(*(call.parts for call in called))
        self._known = True

    def note(self, sql: str, *, alone: bool, later: bool = False) -> None:
        """Note which parts of a statement are not explored.

        `alone` says that no transaction is open. `later` says that a transaction is open and that
        not every order in which transactions begin is explored.
        """
        if (sql, alone, later) in self._seen:
            return
        self._seen.add((sql, alone, later))
        for name, parts in self._functions.items():
            if statements.uses(sql, parts):
                self.note_limit(f"the statements in the function {name} are one step")
        self._note_hidden(sql, later)
        if self.reduced and statements.compares_with_clock(sql):
            self.note_limit("that a time passes with which a statement compares the clock")
        kind, words = statements.kind(sql), statements.words(sql)
        if kind in statements.DEFINITIONS or (kind in ("SELECT", "WITH") and "into" in words):
            for name in self._event_triggers:
                self.note_limit(f"the event trigger {name} is part of the step that fires it")
        if kind == "LISTEN":
            self.note_limit("which notifications LISTEN receives, and when")
        if kind == "NOTIFY" or "pg_notify" in words:
            self.note_limit("the notifications that NOTIFY sends")
        if kind in ("CALL", "DO"):
            commits = ", with their COMMIT" if alone else ""
            self.note_limit(f"the statements in {kind} are one step{commits}")
        kinds = map(statements.kind, statements.parts(sql))
        if sum(kind not in statements.CONTROL for kind in kinds) > 1:
            self.note_limit(f"several statements in one execute() are one step: {_short(sql)}")

    def _note_hidden(self, sql: str, later: bool) -> None:
        """Note the calls that a statement does not name: by an operator, a view, a trigger, …"""
        writes = statements.writes(sql)
        clock = later and statements.reads_transaction_clock(sql)
        for call in self._hidden:
            if (call.by_writing and not writes) or not statements.uses(sql, call.parts):
                continue
            if call.kind == "clock":
                clock = clock or later
            elif call.kind == "trigger of TRUNCATE" and not (
                {"truncate", "cascade"} <= statements.words(sql)
            ):
                continue  # only TRUNCATE … CASCADE also truncates the tables that refer to these
            elif call.kind.startswith("trigger"):
                self.note_limit(f"the trigger {call.called} is part of the step that fires it")
            else:
                self.note_limit(
                    f"the {call.kind} {call.called} is part of the step that uses {call.name}"
                )
        if clock:
            self.note_clock_limit()

    def note_timeouts(self, text: str) -> None:
        """Note the timeouts that a statement with its parameters sets."""
        for name in timeouts_set(text):
            self.note_limit(f"when {name} ends a statement or a session, which the code sets")

    def note_rows(self, sql: str, rows: int, process: int) -> None:
        """Note what a statement has locked, and whether others lock it in another order."""
        for what in self._orders.note(sql, rows, process):
            self.note_limit(what)

    def note_orders(self, steps: Sequence[Step]) -> None:
        """Note the transactions that lock rows one by one, and others by one statement."""
        for what in self._orders.note_schedule(steps):
            self.note_limit(what)

    def note_schedule(self, steps: Sequence[tuple[int, str, str]]) -> None:
        """Note the statements that two commits of others can separate from their locks.

        Both commits come between the snapshot of the statement and its locks. One such commit is
        explored: the other transaction is open when the statement takes its snapshot, and the
        statement then waits for it.

        Args:
            steps: the process, the kind and the SQL of each.
        """
        transactions = _written(steps)
        for process, _, sql in steps:
            if sql in self._gaps:
                continue
            read, locked = self.tables.reads_before_it_locks(sql)
            if not (read and locked):
                continue
            others = [other for other in transactions if other[0] != process]
            if any(
                first is not second
                and (first[0] != second[0] or first[1] < second[1])
                and first[2] & read
                and second[2] & locked
                for first in others
                for second in others
            ):
                self._gaps.add(sql)
                self.note_limit(
                    "what others commit between the snapshot of one statement and its locks: "
                    + _short(sql)
                )

    def note_refusals(self, steps: Sequence[tuple[int, str, str]]) -> None:
        """Note the statements that choose unlocked rows, where one snapshot serves a transaction.

        Another process may commit between the snapshot and the locks of the statement. PostgreSQL
        then refuses to lock a row. A statement that waits is refused in a schedule.
        """
        locked = [(process, statements.locked_tables(sql)) for process, _, sql in steps]
        for process, _, sql in steps:
            tables = statements.locked_tables(sql)
            others = [tables for other, tables in locked if other != process]
            if statements.passes_locked_rows(sql) and any(tables & other for other in others):
                self.note_limit(
                    "a serialization failure, if another process commits between the snapshot and "
                    f"the locks of one statement: {_short(sql)}"
                )

    def note_limit(self, what: str) -> None:
        self.limits[what] = None

    def note_clock_limit(self) -> None:
        """Note that not every order of the times at which transactions began is explored."""
        self.note_limit("which transaction began first, as their clocks tell")

    def note_unseen_commit(self, sql: str) -> None:
        """Note a statement that commits within its step: nothing is proven then."""
        self.unseen_commits[_short(sql)] = None

    def note_unobserved(self, what: str) -> None:
        """Note a sender of statements that were not observed: nothing is proven then."""
        self.unobserved[what] = None


def _written(steps: Sequence[tuple[int, str, str]]) -> list[tuple[int, int, frozenset[str]]]:
    """Return the process, the last step and the tables of each transaction that locks rows."""
    open_transactions: dict[int, frozenset[str]] = {}
    transactions = []
    for number, (process, kind, sql) in enumerate(steps):
        open_transactions[process] = open_transactions.get(
            process, frozenset()
        ) | statements.locked_tables(sql)
        if kind in ENDS and (tables := open_transactions.pop(process)):
            transactions.append((process, number, tables))
    return transactions + [
        (process, len(steps), tables) for process, tables in open_transactions.items() if tables
    ]


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _parts(name: str) -> frozenset[str]:
    """Return the words of a name: "old orders" has two, as in statements."""
    return statements.words(name) or frozenset([name] if name else [])
