"""What processes do outside of the database: what is compared of it, and what is not."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pginterleave.judging.end_states import EndStates
from pginterleave.judging.values import Value, make_plain_value

Also = Callable[[], object]
RECIPIENTS = "the list of the mails' recipients"


class Effects:
    """Compares what a test names, to whom Django has sent mails, and what other databases hold."""

    def __init__(self, also: Also | None, databases: Mapping[str, EndStates]) -> None:
        self.also = also
        self.databases = databases
        self.used: dict[str, None] = {}  # the other databases that serial orders have used
        self.unread: dict[str, None] = {}  # those that only other schedules have used
        self.has_learned = False  # whether the serial orders have run
        self.calls: dict[str, None] = {}  # descriptions of calls whose effect is not compared
        self.has_mails = False
        self._before: Any = None
        self._mails = 0

    def begin(self) -> None:
        self._before = _copy(self.also()) if self.also else None
        self._mails = len(_list_mails())

    def note_database(self, name: str) -> None:
        """Note a used database: its rows are compared if a serial order uses it, else a limit."""
        if name in self.databases and name not in self.used:
            databases = self.unread if self.has_learned else self.used
            databases[name] = None

    def collect_values(self) -> dict[str, Value]:
        """Return what has been added since `begin`, by name."""
        mails = _list_mails()[self._mails :]
        self.has_mails = self.has_mails or bool(mails)
        recipients = sorted(", ".join(mail.recipients()) for mail in mails)
        named: dict[str, object] = {RECIPIENTS: "; ".join(recipients)}
        for name in self.used:
            named[f"the database {name}"] = read_rows(self.databases[name])
        if self.also:
            named["also"] = _subtract(_copy(self.also()), self._before)
        return {name: make_plain_value(value) for name, value in named.items()}

    def list_limits(self) -> list[str]:
        limits = ["the text of the mails that a process sends"] if self.has_mails else []
        if not self.also:
            limits += [f"{call}: compare it with also=" for call in self.calls]
        return limits + [f"the rows of the database {name!r}" for name in self.unread]


def read_rows(states: EndStates) -> dict[str, list[str]]:
    """Return the rows of a database by table, without ids of sequences."""
    rows_by_table = {}
    for table, rows in states.read_all().items():
        generated = states.structure.generated
        references = states.structure.references
        columns = states.structure.columns[table]
        kept = [column for column in columns if not generated & {column, references.get(column)}]
        rows_by_table[table] = sorted(repr([row[column] for column in kept]) for row in rows)
    return rows_by_table


def _list_mails() -> list[Any]:
    return [*getattr(sys.modules.get("django.core.mail"), "outbox", ())]


def _copy(value: object) -> object:
    """Return a copy of a list, which the processes may append to."""
    return [*value] if isinstance(value, (list, tuple)) else value


def _subtract(after: Any, before: Any) -> object:
    """Return the difference of two numbers, or what a list has more; otherwise `after`."""
    numbers = (int, float)
    if isinstance(before, numbers) and isinstance(after, numbers) and not isinstance(after, bool):
        return after - before
    if isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before:
        return after[len(before) :]
    return after
