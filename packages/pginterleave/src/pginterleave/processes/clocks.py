"""Python's clocks: those of the explorer, and the times that processes send in parameters."""

import datetime
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

READ_AT_START = "which process reads its clock first, before its first statement"


class RealClock:
    """The clocks of Python; freezegun and others replace them in the variables of modules."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)


class ClockReads:
    """Finds after which steps the processes read the clock whose time they send later.

    The order of two such steps matters: the process whose step is first has the earlier time. A
    time that was computed, such as now in 30 days, orders nothing within a moment.
    """

    def __init__(self) -> None:
        self._sql_before: dict[int, set[str]] = defaultdict(set)  # of the steps, by process
        self._compares = False  # whether a statement compares a column with a time

    def note_statement(
        self, process: int, sql: str, params: Any, returned: Sequence[tuple[float, str]]
    ) -> None:
        """Note the times among a statement's parameters.

        `returned` has when the process began, with "", and when each of its steps returned.
        """
        before_condition, _, condition = sql.upper().partition(" WHERE ")
        if condition and isinstance(params, (list, tuple)):
            compared = params[before_condition.count("%S") :]
            self._compares = self._compares or any(_list_times(compared))
        for value in _list_times(params):
            steps = [sql for at, sql in returned if at <= value]
            if steps and value <= RealClock.time():
                self._sql_before[process].add(steps[-1])

    def list_limits(self) -> list[str]:
        """Return the order of reads that no schedule changes, if a statement compares times."""
        at_start = any("" in steps for steps in self._sql_before.values())
        return [READ_AT_START] if at_start and self._compares and self.count() else []

    def is_read_after(self, process: int, sql: str) -> bool:
        return len(self._sql_before) > 1 and sql in self._sql_before.get(process, ())

    def count(self) -> int:
        """Return how many steps are known, if two processes have some."""
        known = self._sql_before.values()
        return sum(map(len, known)) if len(known) > 1 else 0


def _list_times(value: Any) -> Iterator[float]:
    """Yield the times in parameters, as seconds since 1970."""
    if isinstance(value, datetime.datetime):
        yield value.timestamp()
        if value.tzinfo is None:
            yield value.replace(tzinfo=datetime.UTC).timestamp()
    elif isinstance(value, float):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _list_times(part)
    elif isinstance(value, Mapping):
        yield from _list_times([*value.values()])
