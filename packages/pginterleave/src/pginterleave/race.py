"""What is explored, and how it is judged."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.judge import Expected, Function, Invariant, InvariantJudge, Judge
from pginterleave.judging.serial_orders import SerialJudge, TryAgain
from pginterleave.processes.control import Database
from pginterleave.processes.scheduler import Scheduler, Setup
from pginterleave.results import Observe, Schedule


@dataclass(frozen=True)
class Race:
    """The processes, and how their schedules are judged."""

    processes: Sequence[Function]
    setup: Setup
    database: Database
    like: Sequence[Function]
    judge: Judge
    split_autocommit: bool
    max_steps: int
    step_timeout: float | None

    @property
    def serial(self) -> SerialJudge | None:
        return self.judge if isinstance(self.judge, SerialJudge) else None

    @contextlib.contextmanager
    def scheduler(self) -> Iterator[Scheduler]:
        """Enter with the processes, ready to run schedules, and with the serial orders known."""
        if self.serial and self.like and not self.serial.ends:
            if len(self.like) != len(self.processes):
                raise CannotExplore("like needs one function for each process.")
            with self._new(self.like) as reference:
                self.serial.learn(reference)
        with self._new(self.processes) as scheduler:
            if self.serial and not self.serial.ends:
                self.serial.learn(scheduler)
            yield scheduler

    def run(self, order: str, observe: Observe | None) -> Schedule:
        with self.scheduler() as scheduler:
            return scheduler.run_order(order, observe)

    def _new(self, functions: Sequence[Function]) -> Scheduler:
        options = self.split_autocommit, self.max_steps, self.step_timeout
        return Scheduler(tuple(functions), self.setup, self.judge, self.database, *options)


def judge_of(
    using: str | Database,
    isolation_level: str,
    invariant: Invariant | None,
    like: Sequence[Function],
    expected: Expected,
    try_again: TryAgain | None,
) -> tuple[Database, Sequence[Function], Judge]:
    """Return the database, the reference and the judge of a race."""
    database = _database(using, isolation_level)
    if invariant and not like:
        if try_again:
            raise CannotExplore("try_again is for a comparison with the serial orders, with like=.")
        return database, like, InvariantJudge(invariant, expected)

    def ask(sql: str) -> list[Any]:
        return database.ask(sql, {})

    judge = SerialJudge(ask, expected=expected, try_again=try_again, invariant=invariant)
    return database, like, judge


def _database(using: str | Database, isolation_level: str) -> Database:
    if not isinstance(using, str):
        if isolation_level:
            raise CannotExplore("isolation_level is for Django: set the level on the connections.")
        return using
    # A late import: pytest loads this package as a plugin in projects without Django, too.
    from pginterleave.django import DjangoDatabase

    return DjangoDatabase(using, isolation_level)
