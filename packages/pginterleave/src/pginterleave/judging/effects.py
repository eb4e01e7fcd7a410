"""What processes do outside of the database: what is compared of it, and what is not."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pginterleave.judging.end_states import EndStates
from pginterleave.judging.values import Node, Value, make_plain_value

Also = Callable[[], object]
CLOCKS = ("sleep", "now", "time", "monotonic")  # Mocks of these have no effect


class Effects:
    """Compares what a test names, the calls of its Mocks, its mails, and other databases."""

    def __init__(self, also: Also | None, databases: Mapping[str, EndStates]) -> None:
        self.also = also
        self.databases = databases
        self.used: dict[str, bool] = {}  # the databases used so far, and whether each is compared
        self.compares_new = True  # only until all serial orders have run
        self.calls: dict[str, None] = {}  # descriptions of calls whose effect is not compared
        self.mocks = CalledMocks()
        self.has_mails = False
        self._also_before: Any = None
        self._mails_before = 0

    def begin(self) -> None:
        """Note what `also` returns, and how many mails there are, before the processes run."""
        self._also_before = _copy(self.also()) if self.also else None
        self._mails_before = len(_list_mails())
        self.mocks.begin()

    def note_database(self, name: str) -> None:
        """Note that a process uses a database; it is compared if a serial order uses it, too."""
        if name in self.databases:
            self.used.setdefault(name, self.compares_new)

    def collect_values(self) -> dict[str, Value]:
        """Return what the processes have done outside of the explored database, by name."""
        mails = _list_mails()[self._mails_before :]
        self.has_mails = self.has_mails or bool(mails)
        recipients = sorted(", ".join(mail.recipients()) for mail in mails)
        values: dict[str, object] = {"the list of the mails' recipients": "; ".join(recipients)}
        for name, is_compared in self.used.items():
            if is_compared:
                values[f"the database {name}"] = read_rows(self.databases[name])
        if self.also:
            values["what also= returns"] = _subtract(_copy(self.also()), self._also_before)
        calls = {} if self.also else self.mocks.collect_values()
        return {name: make_plain_value(value) for name, value in values.items()} | calls

    def list_limits(self) -> list[str]:
        """Return the effects that are not compared, and how to compare them."""
        limits = ["the text of the mails that a process sends"] if self.has_mails else []
        if not self.also:
            limits += [f"{call}: compare it with also=" for call in self.calls]
        not_compared = [name for name, is_compared in self.used.items() if not is_compared]
        return limits + [f"the rows of the database {name!r}" for name in not_compared]


class CalledMocks:
    """The Mocks that processes have called, and how often each had been called before."""

    def __init__(self) -> None:
        self._called: dict[int, tuple[Any, int]] = {}  # by the id of the Mock

    def begin(self) -> None:
        for key, (mock, _) in self._called.items():
            self._called[key] = mock, len(mock.call_args_list)

    def note(self, mock: Any) -> None:
        """Note a Mock that is about to be called, unless it stands for a clock."""
        if _name_mock(mock).rpartition(".")[2] not in CLOCKS:
            self._called.setdefault(id(mock), (mock, len(mock.call_args_list)))

    def collect_values(self) -> dict[str, Value]:
        """Return the number and the arguments of the calls since the beginning, by name."""
        calls: dict[str, list[Value]] = {}
        for mock, number in self._called.values():
            if new := [make_plain_value(tuple(call)) for call in mock.call_args_list[number:]]:
                calls.setdefault(_name_mock(mock), []).extend(new)
        values: dict[str, Value] = {}
        for name in sorted(calls):
            called = sorted(calls[name], key=repr)
            arguments = tuple((str(place), call) for place, call in enumerate(called, start=1))
            values[f"the number of calls of {name}"] = make_plain_value(len(called))
            values[f"what {name} is called with"] = Node("is", arguments)
        return values


def _name_mock(mock: Any) -> str:
    """Return the name in a text such as `<Mock name='charge' id='1'>`."""
    return repr(mock).partition(" name='")[2].partition("'")[0] or "a Mock"


def read_rows(states: EndStates) -> dict[str, list[str]]:
    """Return the rows of a database by table, without ids of sequences and references to them."""
    rows_by_table = {}
    for table, rows in states.read_all().items():
        generated = states.structure.generated
        target_of = states.structure.references.get
        columns = states.structure.columns[table]
        kept = [c for c in columns if c not in generated and target_of(c) not in generated]
        rows_by_table[table] = sorted(repr([row[column] for column in kept]) for row in rows)
    return rows_by_table


def _list_mails() -> list[Any]:
    """Return the mails that Django has kept since a test began; [] outside of its tests."""
    return [*getattr(sys.modules.get("django.core.mail"), "outbox", ())]


def _copy(value: object) -> object:
    """Return a copy of a list, which the processes may append to."""
    return [*value] if isinstance(value, (list, tuple)) else value


def _subtract(after: Any, before: Any) -> object:
    """Return the difference of two numbers, or what was appended to a list, or else `after`."""
    numbers = (int, float)
    if isinstance(before, numbers) and isinstance(after, numbers) and not isinstance(after, bool):
        return after - before
    if isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before:
        return after[len(before) :]
    return after
