"""What is explored, and how it is judged."""

import contextlib
from collections.abc import Iterator, Sequence

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.effects import Also
from pginterleave.judging.judge import Expected, Invariant, InvariantJudge
from pginterleave.judging.serial_orders import SerialJudge, TryAgain
from pginterleave.options import Options
from pginterleave.processes.control import Database
from pginterleave.processes.scheduler import Scheduler, Setup
from pginterleave.processes.verdict import Function, Judge


class Race:
    """The processes, and how their schedules are judged: the arguments of `explore`."""

    def __init__(
        self,
        processes: Sequence[Function],
        *,
        invariant: Invariant | None = None,
        like: Sequence[Function] = (),
        also: Also | None = None,
        expected: Expected = (),
        try_again: TryAgain | None = None,
        setup: Setup = lambda: None,
        using: str | Database = "default",
        isolation_level: str = "",
        options: Options = Options(),  # noqa: B008 - it is frozen
    ) -> None:
        self.processes = processes
        self.like = like
        self.setup = setup
        self.options = options
        self.database: Database
        if isinstance(using, str):
            # A late import: pytest loads this package as a plugin in projects without Django, too.
            from pginterleave.django.database import DjangoDatabase

            self.database = DjangoDatabase(using, isolation_level)
        elif isolation_level:
            text = "isolation_level is for Django: set the level on the connections."
            raise CannotExplore(text)
        else:
            self.database = using
        self.judge: Judge
        self.serial: SerialJudge | None = None
        if invariant and not like:
            if try_again or also:
                name = "try_again" if try_again else "also"
                text = f"{name} is for a comparison with the serial orders, with like=."
                raise CannotExplore(text)
            self.judge = InvariantJudge(invariant, expected)
            return
        self.judge = self.serial = SerialJudge(
            self.database, expected=expected, try_again=try_again, invariant=invariant, also=also
        )

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

    def _new(self, functions: Sequence[Function]) -> Scheduler:
        return Scheduler(functions, self.setup, self.judge, self.database, self.options)
