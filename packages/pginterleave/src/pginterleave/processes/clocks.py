"""Python's clocks: those of the explorer, and the times that processes send in parameters."""

import contextlib
import datetime
import decimal
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TEN_DIGITS = 1_000_000_000  # so many seconds had passed in 2001
UNITS = (1_000, 1_000_000, 1_000_000_000)  # of integers: milliseconds and so on, by the second
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?")
_UUID7 = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
_DIGITS = re.compile(r"(?<![\w.-])(?:\d{10}\.\d+|\d{13,19})(?![\w.-])")
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
        # The SQL of the steps after which each process reads its clock; "" stands for its begin.
        self._sql_before: dict[int, set[str]] = defaultdict(set)
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
        for begin, end in _list_times(params):
            before = [sql for at, sql in returned if at <= begin]
            within = [sql for at, sql in returned if begin < at <= end]
            if (before or within) and begin <= RealClock.time():
                self._sql_before[process].update(before[-1:], within)

    def list_limits(self) -> list[str]:
        """Return READ_AT_START if a process reads its clock before its first statement.

        No schedule changes the order of such a read. The order matters only if several processes
        read their clocks, and a statement compares times.
        """
        at_start = any("" in steps for steps in self._sql_before.values())
        return [READ_AT_START] if at_start and self._compares and self.count() else []

    def is_read_after(self, process: int, sql: str) -> bool:
        return len(self._sql_before) > 1 and sql in self._sql_before.get(process, ())

    def count(self) -> int:
        """Return how many steps are known, if two processes have some."""
        known = self._sql_before.values()
        return sum(map(len, known)) if len(known) > 1 else 0


def _list_times(value: Any) -> Iterator[tuple[float, float]]:
    """Yield the times in parameters: when each begins and ends, in seconds since 1970.

    A time may be a number of seconds, or an integer of smaller units; a text, also in JSON; or the
    time in a UUID of version 7. The clock was read at some moment of the unit.
    """
    if isinstance(value, datetime.datetime):
        yield value.timestamp(), value.timestamp()
        if value.tzinfo is None:  # it may be the local time, or that of UTC
            yield from _list_times(value.replace(tzinfo=datetime.UTC))
    elif isinstance(value, int):
        units = [unit for unit in UNITS if 1 < value / unit / TEN_DIGITS < 10]
        yield from ((value / unit, (value + 1) / unit) for unit in units)
    elif isinstance(value, (float, decimal.Decimal)):
        yield float(value), float(value)
    elif isinstance(value, uuid.UUID):
        yield from _list_times(value.int >> 80)  # the first 48 bits: milliseconds
    elif isinstance(value, str):
        yield from _list_times_in_text(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _list_times(part)
    elif isinstance(value, Mapping):
        yield from _list_times([*value.values()])
    else:  # JSON, as the drivers wrap it: psycopg, and psycopg2
        wrapped = getattr(value, "obj", getattr(value, "adapted", None))
        yield from _list_times(wrapped) if wrapped is not None else ()


def _list_times_in_text(text: str) -> Iterator[tuple[float, float]]:
    for written in _TIME.findall(text):
        with contextlib.suppress(ValueError):  # such as the 31st of June
            yield from _list_times(datetime.datetime.fromisoformat(written))
    for written in _UUID7.findall(text):
        yield from _list_times(uuid.UUID(written))
    for digits in _DIGITS.findall(text):
        yield from _list_times(float(digits) if "." in digits else int(digits))
