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

    words: frozenset[str]  # of the name
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
        self._functions: dict[str, frozenset[str]] = {}  # names, each with its words
        self._event_triggers: list[str] = []
        self._hidden: list[HiddenCall] = []
        self.reduced = False  # whether only one of several equivalent orders runs
        self._known = False
        self._seen: set[tuple[str, bool, bool]] = set()  # what `note` has noted
        self._orders = LockOrders(self.tables)
        self._separable: set[str] = set()  # statements that others' commits separate from locks
        self.unexplored: dict[str, None] = {}  # the orders that PostgreSQL decides by chance

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        """Read the catalogue once, after the first `setup`, which may create objects."""
        if self._known:
            return
        self.tables.learn(ask)
        special_names = list(ask(catalogue_queries.SPECIAL_NAMES))
        functions = sorted(name for name, kind, _ in special_names if kind == "function")
        self._functions = {name: _split_name(name) for name in functions}
        self._event_triggers = [name for _, kind, name in special_names if kind == "event trigger"]
        hidden = ask(catalogue_queries.HIDDEN_CALLS)
        self._hidden = [HiddenCall(_split_name(row[0]), *row) for row in hidden]
        # A step that reads the clock, such as a write with a default, depends on every step that
        # reads the clock. TRUNCATE depends on every step. So neither makes a name special.
        special = [_split_name(name) for name, *_ in special_names]
        special_writes = []
        for call in self._hidden:
            if call.kind == "trigger of TRUNCATE" or (call.kind == "clock" and call.by_writing):
                continue
            special_writes.append(call.words)
            if not call.by_writing:
                special.append(call.words)
        self.special = frozenset().union(*special)
        self.special_writes = frozenset().union(*special_writes)
        self._known = True

    def note(self, sql: str, params: Any, *, alone: bool, later: bool) -> None:
        """Note which parts of a statement are not explored.

        `alone` says that no transaction is open. `later` says that a transaction is open and that
        not every order in which transactions begin is explored.
        """
        for name in find_timeouts_set(f"{sql} {params or ''}"):
            self.note_limit(f"when {name} ends a statement or a session, which the code sets")
        if later and statements.has_clock_text(f"{params}"):
            self.note_limit(CLOCK_LIMIT)
        if (sql, alone, later) in self._seen:
            return
        self._seen.add((sql, alone, later))
        for name, name_words in self._functions.items():
            if statements.has_any_name(sql, name_words):
                self.note_limit(f"the statements in the function {name} are one step")
        self._note_hidden(sql, later)
        if self.reduced and statements.has_clock_comparison(sql):
            self.note_limit("that a time passes with which a statement compares the clock")
        kind = statements.find_kind(sql)
        words = statements.find_words(sql)
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
        kinds = map(statements.find_kind, statements.split_statements(sql))
        if len([kind for kind in kinds if kind not in statements.CONTROL]) > 1:
            self.note_limit(f"several statements in one execute() are one step: {_shorten(sql)}")

    def _note_hidden(self, sql: str, later: bool) -> None:
        """Note the calls that a statement does not name: by an operator, a view, a trigger, …"""
        may_write = statements.may_write(sql)
        has_clock = statements.has_transaction_clock(sql)
        for call in self._hidden:
            if (call.by_writing and not may_write) or not statements.has_any_name(sql, call.words):
                continue
            if call.kind == "clock":
                has_clock = True
            elif call.kind.startswith("trigger"):
                # Only TRUNCATE … CASCADE also truncates the tables that refer to these.
                cascades = {"truncate", "cascade"} <= statements.find_words(sql)
                if cascades or call.kind == "trigger":
                    self.note_limit(f"the trigger {call.called} is part of the step that fires it")
            else:
                what = f"the {call.kind} {call.called} is part of the step that uses {call.name}"
                self.note_limit(what)
        if later and has_clock:
            self.note_limit(CLOCK_LIMIT)

    def note_commit(self, sql: str, *, single: bool) -> None:
        """Note a statement that commits within its step, if others notice: it proves nothing."""
        if statements.has_unseen_commit(sql, self.special, single=single):
            self.unseen_commits[_shorten(sql)] = None

    def note_rows(self, sql: str, rows: int, process: int) -> None:
        self.limits |= dict.fromkeys(self._orders.note_statement(sql, rows, process))

    def note_schedule(
        self, steps: Sequence[Step], *, read_committed: bool, snapshots: bool
    ) -> None:
        """Note after a schedule what no order of the steps shows.

        By default some process takes a new snapshot for each statement (`read_committed`), or keeps
        the first one of its transaction (`snapshots`).
        """
        self.limits |= dict.fromkeys(self._orders.note_schedule(steps))
        if read_committed:
            self._note_separable(steps)
        if snapshots or any("isolation" in statements.find_words(step.sql) for step in steps):
            self._note_refusals(steps)

    def _note_separable(self, steps: Sequence[Step]) -> None:
        """Note the statements that two commits of others can separate from their locks.

        Both commits come between the snapshot of the statement and its locks. One such commit is
        explored: the other transaction is open when the statement takes its snapshot, and the
        statement then waits for it.
        """
        transactions = _list_transactions(steps)
        for step in steps:
            if step.sql in self._separable:
                continue
            read, locked = self.tables.find_read_before_locked(step.sql)
            others = [other for other in transactions if other.process != step.process]
            for first, second in permutations(others, 2):
                # A process commits its transactions in one order, two processes in both.
                same_process = first.process == second.process
                if same_process and first.last_step > second.last_step:
                    continue
                if first.locked & read and second.locked & locked:
                    self._separable.add(step.sql)
                    self.note_limit(
                        "what others commit between the snapshot of one statement and its locks: "
                        + _shorten(step.sql)
                    )

    def _note_refusals(self, steps: Sequence[Step]) -> None:
        """Note the statements that choose unlocked rows, where one snapshot serves a transaction.

        Another process may commit between the snapshot and the locks of the statement. PostgreSQL
        then refuses to lock a row. A statement that waits is refused in a schedule.
        """
        for step in steps:
            if not statements.does_pass_locked_rows(step.sql):
                continue
            tables = statements.find_locked_tables(step.sql)
            others = [other for other in steps if other.process != step.process]
            if any(tables & statements.find_locked_tables(other.sql) for other in others):
                self.note_limit(
                    "a serialization failure, if another process commits between the snapshot and "
                    f"the locks of one statement: {_shorten(step.sql)}"
                )

    def note_limit(self, what: str) -> None:
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
    open_ones = [Transaction(process, len(steps), tables) for process, tables in locked.items()]
    return transactions + open_ones


def _shorten(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _split_name(name: str) -> frozenset[str]:
    """Return the words of a name: "old orders" has two, as in statements."""
    return statements.find_words(name) or frozenset([name] if name else [])
