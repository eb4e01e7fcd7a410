"""What a race is, and how it is explored."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any
from unittest.mock import patch

from lab.exceptions import NotFound
from pginterleave import Exploration, Options, Outcome, Schedule, explore, run_schedule
from shorturl.strategies.creating import timestamp_key
from shorturl.strategies.resolving import in_memory, slotted_counter
from shorturl.strategies.table import Strategy

Function = Callable[[], object]
RunSecondTry = Callable[[int, Function], Outcome]  # gets the number of the process
AGAIN = "has to try again"  # what a process returns that runs once more when all have ended


def run_in_this_thread(_number: int, function: Function) -> Outcome:
    """Run the second try of a process, and return its outcome."""
    try:
        return Outcome(returned=function())
    except Exception as error:
        return Outcome(raised=error)


@dataclass(frozen=True, kw_only=True)
class Race:
    """A situation in which a strategy can violate an invariant.

    `situation` says what the processes do, `invariant` what must hold afterwards, and `story` why
    it may not hold.

    `setup(strategy)` makes the first rows. Each process calls `process(strategy, number)`, but the
    first process calls `first()` if it is given, and the last process `last()`. A process that
    returns AGAIN calls `second_try(strategy, number)`, by default `process`, when all have ended.

    Then `check(outcomes)` returns a text that says how the invariant is violated, or "". An
    exception of a process is a violation, too, unless its class is in `expected`. `rows()`
    describes the rows at any time.
    """

    name: str
    operation: str
    situation: str
    invariant: str
    story: str
    process_counts: tuple[int, ...] = (2,)  # the numbers of processes that it is explored with
    strategies: dict[str, Strategy]
    setup: Callable[[Strategy], object]
    process: Callable[[Strategy, int], object]
    first: Function | None = None
    last: Function | None = None
    second_try: Callable[[Strategy, int], object] | None = None
    check: Callable[[list[Outcome]], str]
    rows: Callable[[], object]
    expected: tuple[type[Exception], ...] = ()

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize().replace("Toctou", "TOCTOU")

    def find_strategy(self, name: str) -> Strategy:
        """Return the strategy of this name; raise NotFound."""
        if name not in self.strategies:
            names = ", ".join(self.strategies)
            raise NotFound(f"{self.name} has no strategy {name!r}; it has {names}.")
        return self.strategies[name]

    def parse_processes(self, text: str) -> int:
        """Return a number of processes, for an empty text the smallest one; raise NotFound."""
        numbers = [str(count) for count in self.process_counts]
        if text and text not in numbers:
            noun = "process" if numbers == ["1"] else "processes"
            raise NotFound(f"{self.name} takes {' or '.join(numbers)} {noun}, not {text}.")
        return int(text or min(self.process_counts))

    def make_functions(self, strategy: Strategy, processes: int) -> list[Function]:
        """Return the function that each process calls."""
        numbers = range(1, processes + 1)
        functions: list[Function] = [partial(self.process, strategy, number) for number in numbers]
        if self.first:
            functions[0] = self.first
        if self.last:
            functions[-1] = self.last
        return functions

    def explore(
        self,
        strategy: Strategy,
        processes: int,
        *,
        run_second_try: RunSecondTry = run_in_this_thread,
        **arguments: Any,
    ) -> Exploration:
        """Run every schedule; the other `arguments` are those of pginterleave.explore()."""
        with deterministic():
            return explore(
                self.make_functions(strategy, processes),
                setup=partial(self.setup, strategy),
                invariant=partial(self._check, strategy, run_second_try),
                expected=self.expected,
                **arguments,
            )

    def run(self, strategy: Strategy, processes: int, order: str) -> Schedule:
        """Run one schedule, given by its order, and observe the rows after each step."""
        with deterministic():
            return run_schedule(
                order,
                self.make_functions(strategy, processes),
                setup=partial(self.setup, strategy),
                invariant=partial(self._check, strategy, run_in_this_thread),
                expected=self.expected,
                options=Options(observe=self.rows),
            )

    def _check(
        self, strategy: Strategy, run_second_try: RunSecondTry, outcomes: list[Outcome]
    ) -> str:
        """Run the second tries, and check the invariant with their outcomes."""
        function = self.second_try or self.process
        last_outcomes = outcomes.copy()
        for index, outcome in enumerate(outcomes):
            if outcome.returned is AGAIN:
                process = index + 1
                second = run_second_try(process, partial(function, strategy, process))
                if second.raised and not isinstance(second.raised, self.expected):
                    error = type(second.raised).__name__
                    return f"process {process} raises {error} when it tries again"
                last_outcomes[index] = second
        return self.check(last_outcomes)


@contextmanager
def deterministic() -> Iterator[None]:
    """Let all processes in the block read the same time and draw the same slot; no timer fires."""
    with (
        patch.object(timestamp_key, "time_ns", lambda: 1_700_000_000_000_000_000),
        patch.object(in_memory, "Timer", lambda *_: Thread()),  # a thread that does nothing
        patch.object(in_memory, "HITS", in_memory.Hits()),
        patch.object(slotted_counter, "randrange", lambda _: 0),
    ):
        yield
