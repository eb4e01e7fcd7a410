"""The meaning of the names in a statement, from PostgreSQL's catalogue."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from pginterleave.sql import catalogue_queries, statements
from pginterleave.sql.dependent_steps import ENDS
from pginterleave.sql.lock_orders import LockOrders
from pginterleave.sql.rows_touched import Tables
from pginterleave.sql.timeouts import timeouts_set
from pginterleave.steps import Step

Steps = list[tuple[int, str, str]]  # the process, the kind and the SQL of each
# Not every order of the times at which transactions began is explored.
CLOCK_LIMIT = "which transaction began first, as their clocks tell"


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
        functions = sorted(name for name, kind, _ in rows if kind == "function")
        self._functions = {name: _split_name(name) for name in functions}
        self._event_triggers = [name for _, kind, name in rows if kind == "event trigger"]
        hidden = ask(catalogue_queries.HIDDEN_CALLS)
        self._hidden = [HiddenCall(_split_name(row[0]), *row) for row in hidden]
        # A step that reads the clock, such as a write with a default, depends on every step that
        # reads the clock. TRUNCATE depends on every step. So neither makes a name special.
        special = [_split_name(name) for name, *_ in rows]
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
        for name in timeouts_set(f"{sql} {params or ''}"):
            self.note_limit(f"when {name} ends a statement or a session, which the code sets")
        if later and statements.has_clock_text(f"{params}"):
            self.note_limit(CLOCK_LIMIT)
        if (sql, alone, later) in self._seen:
            return
        self._seen.add((sql, alone, later))
        for name, name_words in self._functions.items():
            if statements.uses(sql, name_words):
                self.note_limit(f"the statements in the function {name} are one step")
        self._note_hidden(sql, later)
        if self.reduced and statements.compares_with_clock(sql):
            self.note_limit("that a time passes with which a statement compares the clock")
        kind = statements.kind(sql)
        words = statements.words(sql)
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
            self.note_limit(f"several statements in one execute() are one step: {_shorten(sql)}")

    def _note_hidden(self, sql: str, later: bool) -> None:
        """Note the calls that a statement does not name: by an operator, a view, a trigger, …"""
        writes = statements.writes(sql)
        clock = later and statements.reads_transaction_clock(sql)
        for call in self._hidden:
            if (call.by_writing and not writes) or not statements.uses(sql, call.words):
                continue
            if call.kind == "clock":
                clock = clock or later
            elif call.kind.startswith("trigger"):
                # Only TRUNCATE … CASCADE also truncates the tables that refer to these.
                cascades = {"truncate", "cascade"} <= statements.words(sql)
                if cascades or call.kind == "trigger":
                    self.note_limit(f"the trigger {call.called} is part of the step that fires it")
            else:
                what = f"the {call.kind} {call.called} is part of the step that uses {call.name}"
                self.note_limit(what)
        if clock:
            self.note_limit(CLOCK_LIMIT)

    def note_commit(self, sql: str, *, single: bool) -> None:
        """Note a statement that commits within its step, if others notice: nothing is proven then.

        `single` says that it is sent once, and not for several rows of parameters.
        """
        if statements.commits_unseen(sql, self.special, single=single):
            self.unseen_commits[_shorten(sql)] = None

    def note_rows(self, sql: str, rows: int, process: int) -> None:
        self.limits |= dict.fromkeys(self._orders.note(sql, rows, process))

    def note_schedule(
        self, timeline: Sequence[Step], *, read_committed: bool, snapshots: bool
    ) -> None:
        """Note after a schedule what no order of the steps shows.

        By default some process takes a new snapshot for each statement (`read_committed`), or keeps
        the first one of its transaction (`snapshots`).
        """
        self.limits |= dict.fromkeys(self._orders.note_schedule(timeline))
        steps = [(step.process, step.kind, step.sql) for step in timeline]
        if read_committed:
            self._note_gaps(steps)
        if snapshots or any("isolation" in statements.words(sql) for *_, sql in steps):
            self._note_refusals(steps)

    def _note_gaps(self, steps: Steps) -> None:
        """Note the statements that two commits of others can separate from their locks.

        Both commits come between the snapshot of the statement and its locks. One such commit is
        explored: the other transaction is open when the statement takes its snapshot, and the
        statement then waits for it.
        """
        transactions = _list_transactions(steps)
        for process, _, sql in steps:
            if sql in self._gaps:
                continue
            read, locked = self.tables.reads_before_it_locks(sql)
            others = [other for other in transactions if other[0] != process]
            for first, second in permutations(others, 2):
                in_order = first[0] != second[0] or first[1] < second[1]
                if in_order and first[2] & read and second[2] & locked:
                    self._gaps.add(sql)
                    self.note_limit(
                        "what others commit between the snapshot of one statement and its locks: "
                        + _shorten(sql)
                    )

    def _note_refusals(self, steps: Steps) -> None:
        """Note the statements that choose unlocked rows, where one snapshot serves a transaction.

        Another process may commit between the snapshot and the locks of the statement. PostgreSQL
        then refuses to lock a row. A statement that waits is refused in a schedule.
        """
        locked = [(process, statements.locked_tables(sql)) for process, _, sql in steps]
        for (process, tables), (*_, sql) in zip(locked, steps, strict=True):
            shared = any(tables & others for other, others in locked if other != process)
            if shared and statements.passes_locked_rows(sql):
                self.note_limit(
                    "a serialization failure, if another process commits between the snapshot and "
                    f"the locks of one statement: {_shorten(sql)}"
                )

    def note_limit(self, what: str) -> None:
        self.limits[what] = None

    def note_unobserved(self, what: str) -> None:
        """Note a sender of statements that were not observed: nothing is proven then."""
        self.unobserved[what] = None


def _list_transactions(steps: Steps) -> list[tuple[int, int, frozenset[str]]]:
    """Return the process, the last step and the locked tables of each transaction."""
    transactions = []
    tables: dict[int, frozenset[str]] = defaultdict(frozenset)  # by process
    for number, (process, kind, sql) in enumerate(steps):
        tables[process] |= statements.locked_tables(sql)
        if kind in ENDS:
            transactions.append((process, number, tables.pop(process)))
    return transactions + [(process, len(steps), locked) for process, locked in tables.items()]


def _shorten(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _split_name(name: str) -> frozenset[str]:
    """Return the words of a name: "old orders" has two, as in statements."""
    return statements.words(name) or frozenset([name] if name else [])
