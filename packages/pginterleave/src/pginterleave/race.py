"""What is explored, how it is judged, and the options of a search."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.effects import Also
from pginterleave.judging.judge import Expected, Invariant, InvariantJudge
from pginterleave.judging.serial_orders import SerialJudge, TryAgain
from pginterleave.processes.control import Database
from pginterleave.processes.scheduler import Scheduler, Setup
from pginterleave.processes.verdict import Function, Judge
from pginterleave.results import Observe, Schedule


@dataclass(frozen=True, kw_only=True)
class Options:
    """What few explorations change.

    Attributes:
        reduce: of the schedules that differ only in the order of independent steps, run one and
            count the others. None is on, unless `on_schedule` is given. Savepoints are independent,
            and so is setting the isolation level. Unless transactions are SERIALIZABLE, a plain
            SELECT is independent of other SELECTs and of writes that are not committed. In READ
            COMMITTED, steps about different tables are independent, too, and steps about different
            rows by a unique column. The effect of a step is derived from its SQL, the catalogue and
            its result. A step that is not known to be independent keeps its place. The processes
            must share no memory: turn it off if they do.
        split_autocommit: whether the COMMIT of a statement that writes or locks, outside a
            transaction, is a separate step, as statements of others can come between. Without it
            there are fewer schedules, and code that breaks in real threads may break in none.
        max_steps: a longer schedule is an error, as a loop may never end.
        step_timeout: seconds for one step, and for the Python up to the next one.
        observe: called after each step, on the caller's connection, which sees what is committed.
            The step keeps its result. An exploration is slower with it.
        on_schedule: called with every schedule after it has run.
    """

    reduce: bool | None = None
    split_autocommit: bool = True
    max_steps: int = 200
    step_timeout: float = 30.0
    observe: Observe | None = None
    on_schedule: Callable[[Schedule], object] | None = None

    @property
    def reduces(self) -> bool:
        return self.on_schedule is None if self.reduce is None else self.reduce


@dataclass(frozen=True)
class Race:
    """The processes, and how their schedules are judged."""

    processes: Sequence[Function]
    setup: Setup
    database: Database
    like: Sequence[Function]
    judge: Judge
    options: Options = field(default_factory=Options)

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
                self.serial.learn(reference.run_in_turn, len(self.like))
        with self._new(self.processes) as scheduler:
            if self.serial and not self.serial.ends:
                self.serial.learn(scheduler.run_in_turn, len(self.processes))
            yield scheduler

    def run(self, order: str, observe: Observe | None) -> Schedule:
        with self.scheduler() as scheduler:
            return scheduler.run_order(order, observe)

    def _new(self, functions: Sequence[Function]) -> Scheduler:
        return Scheduler(
            tuple(functions),
            self.setup,
            self.judge,
            self.database,
            self.options.split_autocommit,
            self.options.max_steps,
            self.options.step_timeout,
        )


def race_of(
    processes: Sequence[Function],
    *,
    invariant: Invariant | None,
    like: Sequence[Function],
    also: Also | None,
    expected: Expected,
    try_again: TryAgain | None,
    setup: Setup,
    using: str | Database,
    isolation_level: str,
    options: Options,
) -> Race:
    """Return a race from the arguments of `explore`."""
    database = _database(using, isolation_level)

    def ask(sql: str) -> list[Any]:
        return database.ask(sql, {})

    judge: Judge
    if invariant and not like:
        if try_again or also:
            name = "try_again" if try_again else "also"
            raise CannotExplore(f"{name} is for a comparison with the serial orders, with like=.")
        judge = InvariantJudge(invariant, expected)
    else:
        judge = SerialJudge(
            ask,
            expected=expected,
            try_again=try_again,
            invariant=invariant,
            also=also,
            others=database.others(),
        )
    return Race(processes, setup, database, like, judge, options)


def _database(using: str | Database, isolation_level: str) -> Database:
    if not isinstance(using, str):
        if isolation_level:
            raise CannotExplore("isolation_level is for Django: set the level on the connections.")
        return using
    # A late import: pytest loads this package as a plugin in projects without Django, too.
    from pginterleave.django import DjangoDatabase

    return DjangoDatabase(using, isolation_level)
