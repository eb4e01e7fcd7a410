"""Two processes in a fixed order: one is stopped after a statement, the other runs meanwhile.

No thread waits for a clock. The competitor runs on a connection of its own, to its end or until
PostgreSQL says that it waits for a lock of the first; then the first goes on.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection

TIMEOUT = 20  # seconds, many times what any of this takes


@dataclass
class Outcome:
    """What a process returned, or what it raised."""

    returned: Any = None
    raised: Exception | None = None


Process = Callable[[], Any]


def outcome(process: Process) -> Outcome:
    """Run `process` and return how it ended."""
    try:
        return Outcome(returned=process())
    except Exception as error:
        return Outcome(raised=error)


class Competitor:
    """The second process: a thread with a database connection of its own."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.outcome = Outcome()
        self.pid = 0
        self.connected, self.done = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                (self.pid,) = cursor.fetchone()
            self.connected.set()
            self.outcome = outcome(self.process)
        finally:
            connection.close()
            self.done.set()

    def run_or_wait(self) -> None:
        """Start it, and return when it has ended or waits for a lock."""
        self.thread.start()
        assert self.connected.wait(TIMEOUT), "the competitor cannot connect"
        monitor = connection.copy()
        try:
            with monitor.cursor() as cursor:
                while not self.done.wait(0.002):
                    cursor.execute("SELECT cardinality(pg_blocking_pids(%s))", [self.pid])
                    if cursor.fetchone() > (0,):
                        return
        finally:
            monitor.close()

    def join(self) -> None:
        """Return when it has ended."""
        self.thread.join(TIMEOUT)
        assert not self.thread.is_alive(), "the competitor does not end"


@contextmanager
def after_statement(number: int, competitor: Competitor) -> Iterator[None]:
    """Within the block, run `competitor` after this connection's statement `number` (from 1)."""
    sent = 0

    def stop_after(execute: Any, *args: Any) -> Any:
        nonlocal sent
        sent += 1
        mine = sent
        try:
            return execute(*args)
        finally:
            if mine == number:
                competitor.run_or_wait()

    with connection.execute_wrapper(stop_after):
        yield


def break_at(
    first: Process,
    second: Process,
    *,
    setup: Callable[[], object],
    broken: Callable[[Outcome, Outcome], str | None],
) -> dict[int, str]:
    """Let `second` come after each statement of `first` in turn; return what broke, by statement.

    `setup` runs before each turn. `broken` takes the two outcomes, looks at the database, and
    returns what does not hold, or None.
    """
    wounds = {}
    for number in range(1, 100):
        setup()
        competitor = Competitor(second)
        with after_statement(number, competitor):
            one = outcome(first)
        if not competitor.connected.is_set():
            break  # the first has fewer statements than that: all were tried
        competitor.join()
        if wound := broken(one, competitor.outcome):
            wounds[number] = wound
    assert number > 1, "the first process sent no statement"
    return wounds
