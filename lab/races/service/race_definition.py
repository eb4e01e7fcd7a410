"""What a race is, and how it is explored."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any, NamedTuple
from unittest.mock import patch

from lab.exceptions import NotFound
from pginterleave import Exploration, Options, Outcome, Schedule, explore, run_schedule
from shorturl.strategies.creating import timestamp_key
from shorturl.strategies.resolving import in_memory, slotted_counter
from shorturl.strategies.table import Strategy

Process = Callable[[], object]
Processes = Callable[[Strategy, int], list[Process]]  # with the number of processes
TryAgain = Callable[[int, Process], Outcome]  # of the process with this number
# The limits of one exploration by a command. The longest, three processes of permuted_sequence in a
# transaction, runs all its 34,650 schedules.
MAX_SCHEDULES, MAX_SECONDS = 50_000, 900


def each(one: Callable[[Strategy, int], object]) -> Processes:
    """Return processes that each call `one` with the strategy and the number of the process."""
    return lambda strategy, number: [
        partial(one, strategy, process) for process in range(1, number + 1)
    ]


def try_again(process: int, second_try: Process) -> Outcome:
    try:
        return Outcome(returned=second_try())
    except Exception as error:
        return Outcome(raised=error)


@contextmanager
def worst_case() -> Iterator[None]:
    """Within the block, replace clock, timer and random numbers, so that the worst case happens.

    All processes read the same time and draw the same slot, and no timer fires. The strategies'
    modules are patched, so no strategy needs a parameter for this.
    """
    with (
        patch.object(timestamp_key, "time_ns", lambda: 1_700_000_000_000_000_000),
        patch.object(in_memory, "Timer", lambda *_: Thread()),  # which does nothing
        patch.object(in_memory, "HITS", in_memory.Hits()),  # lost with the process
        patch.object(slotted_counter, "randrange", lambda _: 0),
    ):
        yield


@dataclass(frozen=True, kw_only=True)
class Race:
    """A situation in which a strategy can violate an invariant.

    `setup(strategy)` makes the first state. `processes(strategy, number)` returns what each of
    `number` processes does. `invariant(outcomes)` returns what does not hold afterwards, or "". An
    exception that a process raises violates it too, unless its class is in `expected`. `observe()`
    returns what the rows contain at any time.
    A process that has to try again returns a callable. It is called when all processes have ended
    and before `invariant`, which gets the outcome of this second try. `around()` returns a context
    manager within which the schedules run.
    """

    name: str
    operation: str
    situation: str
    must_hold: str
    story: str
    counts: tuple[int, ...] = (2,)  # the numbers of processes that it is explored with
    strategies: dict[str, Strategy]
    signature: str  # how a strategy is called
    setup: Callable[[Strategy], object]
    processes: Processes
    invariant: Callable[[list[Outcome]], str]
    observe: Callable[[], object]
    expected: tuple[type[Exception], ...] = ()
    try_again: TryAgain = try_again
    around: Callable[[], AbstractContextManager[None]] = worst_case

    def strategy(self, name: str) -> Strategy:
        if name not in self.strategies:
            names = ", ".join(self.strategies)
            raise NotFound(f"{self.name} has no strategy {name!r}; it has {names}.")
        return self.strategies[name]

    @property
    def takes(self) -> str:
        """The numbers of processes, in words."""
        return f"{' or '.join(map(str, self.counts))} process{'es' * (self.counts != (1,))}"

    def number_of_processes(self, wanted: str) -> int:
        """Return the number that is written so; "" is the smallest. Raises NotFound."""
        if wanted and wanted not in map(str, self.counts):
            raise NotFound(f"{self.name} takes {self.takes}, not {wanted}.")
        return int(wanted or self.counts[0])

    def explore(self, strategy: Strategy, processes: int, **limits: Any) -> Exploration:
        """Run every schedule against `strategy`; `limits` are those of pginterleave.explore()."""
        with self.around():
            return explore(self.processes(strategy, processes), **self._judged(strategy), **limits)

    def run(self, strategy: Strategy, processes: int, order: str) -> Schedule:
        """Run the one schedule written `order`, observing the rows after each step."""
        with self.around():
            parts = self.processes(strategy, processes)
            options = Options(observe=self.observe)
            return run_schedule(order, parts, **self._judged(strategy), options=options)

    def _judged(self, strategy: Strategy) -> dict[str, Any]:
        return {
            "setup": lambda: self.setup(strategy),
            "invariant": self.judge,
            "expected": self.expected,
        }

    def judge(self, outcomes: list[Outcome]) -> str:
        """Run the second tries, and return what does not hold then, or ""."""
        final = [
            self.try_again(process, outcome.returned) if callable(outcome.returned) else outcome
            for process, outcome in enumerate(outcomes, start=1)
        ]
        for process, outcome in enumerate(final, start=1):
            if outcome.raised and not isinstance(outcome.raised, self.expected):
                raised = type(outcome.raised).__name__
                return f"process {process} raises {raised} when it tries again"
        return self.invariant(final)


class Operation(NamedTuple):
    title: str  # of the table of its strategies
    strategies: dict[str, Strategy]
    races: tuple[Race, ...]
