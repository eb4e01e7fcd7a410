"""What processes do outside of the database: what is compared of it, and what is not."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pginterleave.judging.end_states import EndStates
from pginterleave.judging.values import Value, plain_value

Also = Callable[[], object]
RECIPIENTS = "the list of the mails' recipients"


class Effects:
    """Compares what a test names, to whom Django has sent mails, and what other databases hold."""

    def __init__(self, also: Also | None, databases: Mapping[str, EndStates]) -> None:
        self.also, self.databases = also, databases
        self.used: dict[str, None] = {}  # the other databases that processes have used
        self.unread: dict[str, None] = {}  # those that no serial order has used
        self.has_learned = False  # whether the serial orders have run
        self.calls: dict[str, None] = {}  # descriptions of calls whose effect is not compared
        self.has_mails = False
        self._before: Any = None
        self._mails = 0

    def begin(self) -> None:
        self._before = _copied(self.also()) if self.also else None
        self._mails = len(_mails())

    def note_database(self, name: str) -> None:
        """Note the use of another database, whose rows are compared if a serial order uses it."""
        if name in self.databases and name not in self.used:
            (self.unread if self.has_learned else self.used)[name] = None

    def values(self) -> dict[str, Value]:
        """Return what has been added since `begin`, by name."""
        mails = _mails()[self._mails :]
        self.has_mails = self.has_mails or bool(mails)
        recipients = "; ".join(sorted(", ".join(mail.recipients()) for mail in mails))
        named: dict[str, object] = {RECIPIENTS: recipients}
        for name in self.used:
            named[f"the database {name}"] = rows_of(self.databases[name])
        if self.also:
            named["also"] = _added(self._before, _copied(self.also()))
        return {name: plain_value(value) for name, value in named.items()}

    def limits(self) -> list[str]:
        calls = [] if self.also else [f"{call}: compare it with also=" for call in self.calls]
        calls += [f"the rows of the database {name!r}" for name in self.unread]
        return ["the text of the mails that a process sends"] * self.has_mails + calls


def rows_of(states: EndStates) -> dict[str, list[str]]:
    """Return the rows of a database by table, without ids of sequences."""
    everything = {}
    for table, rows in states.read_all().items():
        known = states.structure
        columns = [(table, column) for column in known.columns[table]]
        ids = known.generated | {
            column for column in columns if known.references.get(column) in known.generated
        }
        kept = [at for at, column in enumerate(columns) if column not in ids]
        everything[table] = sorted(repr([row[at] for at in kept]) for row in rows)
    return everything


def _mails() -> list[Any]:
    """Return the mails that Django's tests have kept."""
    return [*getattr(sys.modules.get("django.core.mail"), "outbox", ())]


def _copied(value: object) -> object:
    """Return a copy of a list, which the processes may append to."""
    return [*value] if isinstance(value, (list, tuple)) else value


def _added(before: Any, after: Any) -> object:
    """Return the difference of two numbers, or what a list has more; otherwise the second value."""
    numbers = (int, float)
    if isinstance(before, numbers) and isinstance(after, numbers) and not isinstance(after, bool):
        return after - before
    if isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before:
        return after[len(before) :]
    return after
