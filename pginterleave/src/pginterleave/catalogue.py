"""What the names in a statement stand for, as PostgreSQL's catalogue says."""

from collections.abc import Callable, Iterable
from typing import Any

from pginterleave import queries, statements


class Catalogue:
    """The names that are not those of plain tables, and the limits of what can be stepped."""

    def __init__(self) -> None:
        self.special: frozenset[str] = frozenset()  # functions, views, tables with triggers, …
        self.limits: dict[str, None] = {}  # in the order in which they were met
        self.unobserved: dict[str, None] = {}  # what went past the exploration
        self.unseen_commits: dict[str, None] = {}  # statements that commit within their step
        self._functions: frozenset[str] = frozenset()
        self._triggers: dict[str, str] = {}
        self._known = False
        self._seen: set[tuple[str, bool]] = set()
        self._locked: dict[str, set[int]] = {}  # by table: who locks several rows in one step

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        """Read the catalogue, once: `setup` may make what it shows."""
        if self._known:
            return
        rows = list(ask(queries.SPECIAL_NAMES))
        # Of a name like "old orders", each word, as statements are taken apart.
        self.special = frozenset(word for name, *_ in rows for word in statements.words(name))
        self._functions = frozenset(name for name, what, _ in rows if what == "function")
        self._triggers = {name: trigger for name, what, trigger in rows if what == "trigger"}
        self._known = True

    def note(self, sql: str, *, alone: bool) -> None:
        """Note what of a statement is not explored; `alone` says that no transaction is open."""
        if (sql, alone) in self._seen:
            return
        self._seen.add((sql, alone))
        names = statements.words(sql)
        for name in sorted(names & self._functions):
            self.limit(f"the statements in the function {name} are one step")
        if statements.kind(sql) in (*statements.ROW_CHANGES, "WITH", "COPY", "TRUNCATE"):
            for name in sorted(names & self._triggers.keys()):
                self.limit(f"the trigger {self._triggers[name]} is part of the step that fires it")
        if statements.kind(sql) in ("CALL", "DO"):
            commits = ", with their COMMIT" if alone else ""
            self.limit(f"the statements in {statements.kind(sql)} are one step{commits}")
        if statements.are_several(sql):
            self.limit(f"several statements in one execute() are one step: {_short(sql)}")

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

    def commits_unseen(self, sql: str) -> None:
        """Note a statement that commits within its step, so that nothing is proven."""
        self.unseen_commits[_short(sql)] = None

    def past(self, what: str) -> None:
        """Note statements that were not observed, so that nothing is proven."""
        self.unobserved[what] = None


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:59]}…"
