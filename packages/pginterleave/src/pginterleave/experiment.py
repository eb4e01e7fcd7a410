"""What is explored, and how it is judged."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pginterleave.explorer_errors import CannotExplore, NotDeterministic
from pginterleave.judging.effects import Also
from pginterleave.judging.judge import Expected, Invariant, InvariantJudge
from pginterleave.judging.serial_orders import SerialJudge, TryAgain
from pginterleave.options import Options
from pginterleave.processes.judgement import Function, Judge
from pginterleave.processes.scheduler import Scheduler, Setup


@dataclass
class Experiment:
    """The processes, and how their schedules are judged: the arguments of `explore`."""

    processes: Sequence[Function]
    invariant: Invariant | None = None
    like: Sequence[Function] = ()
    also: Also | None = None
    expected: Expected = ()
    try_again: TryAgain | None = None
    setup: Setup = lambda: None
    using: str = "default"
    isolation_level: str = ""
    options: Options = Options()  # noqa: RUF009 - it is frozen

    def __post_init__(self) -> None:
        # A late import: pytest loads this package as a plugin in projects without Django, too.
        from pginterleave.django.database import DjangoDatabase
        from pginterleave.django.own_objects import give_own_objects
        from pginterleave.django.shared_objects import shared_objects

        self.shared_objects = shared_objects
        self.database = DjangoDatabase(self.using, self.isolation_level)
        functions = (*self.processes, *self.like)
        if all(map(callable, functions)):
            functions, self.setup = give_own_objects(functions, self.setup)
            number = len(self.processes)
            self.processes, self.like = functions[:number], functions[number:]
        self.judge: Judge
        self.serial_judge: SerialJudge | None = None  # the judge, if it compares with serial orders
        if self.invariant and not self.like:
            if self.try_again or self.also:
                name = "try_again" if self.try_again else "also"
                text = f"{name} is for a comparison with the serial orders, with like=."
                raise CannotExplore(text)
            self.judge = InvariantJudge(self.invariant, self.expected)
            return
        self.serial_judge = SerialJudge(
            self.database,
            expected=self.expected,
            try_again=self.try_again,
            invariant=self.invariant,
            also=self.also,
            ignored_tables=self.options.ignored_tables,
        )
        self.judge = self.serial_judge

    @contextlib.contextmanager
    def start_scheduler(self) -> Iterator[Scheduler]:
        """Start the processes; first run the serial orders if the judge compares with them."""
        with self.shared_objects.watch_reads():
            if self.serial_judge and self.like:
                if len(self.like) != len(self.processes):
                    raise CannotExplore("like needs one function for each process.")
                self.serial_judge.reference = "with like=, "
                with self._new_scheduler(self.like) as reference:
                    self.serial_judge.run_serial_orders(reference.run_in_turn, len(self.like))
            with self._new_scheduler(self.processes) as scheduler:
                try:
                    if self.serial_judge and not self.like:
                        number = len(self.processes)
                        self.serial_judge.run_serial_orders(scheduler.run_in_turn, number)
                    yield scheduler
                except NotDeterministic as error:
                    if used := scheduler.memory.used:
                        kept = f"They have used {' and '.join(used)}, which nothing puts back."
                        raise NotDeterministic(f"{error} {kept}") from None
                    raise

    def _new_scheduler(self, functions: Sequence[Function]) -> Scheduler:
        return Scheduler(functions, self.setup, self.judge, self.database, self.options)
