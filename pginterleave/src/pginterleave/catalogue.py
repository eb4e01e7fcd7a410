"""What the names in a statement stand for, as PostgreSQL's catalogue says."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pginterleave import queries, statements


class HiddenCall(NamedTuple):
    """What a statement calls without naming it: see `queries.HIDDEN_CALLS`."""

    parts: frozenset[str]  # of the name
    name: str  # by which a statement shows it, such as that of an operator
    kind: str  # of what is called
    called: str
    by_writing: bool  # only


class Catalogue:
    """The names that are not those of plain tables, and the limits of what can be stepped."""

    def __init__(self) -> None:
        self.special: frozenset[str] = frozenset()  # functions, views, operators that call one, …
        self.special_writes: frozenset[str] = frozenset()  # for who writes: tables with triggers, …
        self.limits: dict[str, None] = {}  # in the order in which they were met
        self.unobserved: dict[str, None] = {}  # what went past the exploration
        self.unseen_commits: dict[str, None] = {}  # statements that commit within their step
        self._functions: dict[str, frozenset[str]] = {}  # by name: the words of it
        self._event_triggers: list[str] = []
        self._hidden: list[HiddenCall] = []
        self.reduced = False  # whether of orders that are equivalent one is run
        self._known = False
        self._seen: set[tuple[str, bool, bool]] = set()
        self._locked: dict[str, set[int]] = {}  # by table: who locks several rows in one step

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        """Read the catalogue, once: `setup` may make what it shows."""
        if self._known:
            return
        rows = list(ask(queries.SPECIAL_NAMES))
        self._functions = {
            name: _parts(name) for name, what, _ in sorted(rows) if what == "function"
        }
        self._event_triggers = [name for _, what, name in rows if what == "event trigger"]
        self._hidden = [
            HiddenCall(_parts(name), name, *rest) for name, *rest in ask(queries.HIDDEN_CALLS)
        ]
        # Writing depends on whatever asks for the time, so also if a default does; and TRUNCATE
        # on everything.
        called = [
            each
            for each in self._hidden
            if not (each.kind == "clock" and each.by_writing) and each.kind != "trigger of TRUNCATE"
        ]
        special = [_parts(name) for name, *_ in rows]
        special += [each.parts for each in called if not each.by_writing]
        self.special = frozenset().union(*special)
        self.special_writes = frozenset().union(*(each.parts for each in called))
        self._known = True

    def note(self, sql: str, *, alone: bool, later: bool = False) -> None:
        """Note what of a statement is not explored.

        `alone` says that no transaction is open, and `later` that one is, of which it is not
        explored when it began.
        """
        if (sql, alone, later) in self._seen:
            return
        self._seen.add((sql, alone, later))
        for name, parts in self._functions.items():
            if statements.uses(sql, parts):
                self.limit(f"the statements in the function {name} are one step")
        self._note_hidden(sql, later)
        if self.reduced and statements.compares_with_clock(sql):
            self.limit("that a time passes with which a statement compares the clock")
        kind = statements.kind(sql)
        if statements.fires_event_triggers(sql):
            for name in self._event_triggers:
                self.limit(f"the event trigger {name} is part of the step that fires it")
        if kind in ("CALL", "DO"):
            commits = ", with their COMMIT" if alone else ""
            self.limit(f"the statements in {kind} are one step{commits}")
        if statements.are_several(sql):
            self.limit(f"several statements in one execute() are one step: {_short(sql)}")

    def _note_hidden(self, sql: str, later: bool) -> None:
        """Note what is called unseen: by an operator, a default, a view, a trigger, …"""
        writes = statements.writes(sql)
        clock = later and statements.reads_transaction_clock(sql)
        for each in self._hidden:
            if (each.by_writing and not writes) or not statements.uses(sql, each.parts):
                continue
            if each.kind == "clock":
                clock = clock or later
            elif each.kind == "trigger of TRUNCATE" and not statements.truncates_referencing(sql):
                continue
            elif each.kind.startswith("trigger"):
                self.limit(f"the trigger {each.called} is part of the step that fires it")
            else:
                self.limit(
                    f"the {each.kind} {each.called} is part of the step that uses {each.name}"
                )
        if clock:
            self.limit_clock()

    def note_rows(self, sql: str, rows: int, process: int) -> None:
        """Note the tables of which a process has locked several rows in one step."""
        if rows < 2:
            return
        for table in sorted(statements.locked_tables(sql)):
            self._locked.setdefault(table, set()).add(process)
            if len(self._locked[table]) > 1:
                self.limit(f"in which order one statement locks several rows of {table}")

    def limit(self, what: str) -> None:
        """Note a limit of the proof."""
        self.limits[what] = None

    def limit_clock(self) -> None:
        """Note that it is not explored which time a transaction reads as that of its beginning."""
        self.limit("which transaction began first, as their clocks tell")

    def commits_unseen(self, sql: str) -> None:
        """Note a statement that commits within its step, so that nothing is proven."""
        self.unseen_commits[_short(sql)] = None

    def past(self, what: str) -> None:
        """Note statements that were not observed, so that nothing is proven."""
        self.unobserved[what] = None


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:59]}…"


def _parts(name: str) -> frozenset[str]:
    """Take a name apart as statements are: of one like "old orders", each word."""
    return statements.words(name) or frozenset([name] if name else [])
