"""What a race is, and how it is explored."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
RunAgain = Callable[[int, Function], Outcome]  # runs a second try of the process with a number
AGAIN = "has to try again"  # what a process returns that runs once more when all have ended


@dataclass(frozen=True, kw_only=True)
class Race:
    """A situation in which a strategy can violate an invariant.

    `situation` says what the processes do, `invariant` what must hold afterwards, and `story` why
    it may not. `setup(strategy)` makes the first rows. Each process calls `process(strategy,
    number)`, but for those that do `first` or `last` instead. One that returns AGAIN calls
    `second_try(strategy, number)` when all have ended, by default `process`. `check(outcomes)`
    then returns what does not hold, or "". An exception of a process violates the invariant too,
    unless its class is in `expected`. `rows()` says what the rows contain at any time.
    """

    name: str
    operation: str
    situation: str
    invariant: str
    story: str
    counts: tuple[int, ...] = (2,)  # the numbers of processes that it is explored with
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

    def strategy(self, name: str) -> Strategy:
        if name not in self.strategies:
            names = ", ".join(self.strategies)
            raise NotFound(f"{self.name} has no strategy {name!r}; it has {names}.")
        return self.strategies[name]

    def number_of_processes(self, text: str) -> int:
        """Return the number that is written so; "" is the smallest. Raises NotFound."""
        if text and text not in map(str, self.counts):
            numbers = " or ".join(map(str, self.counts))
            plural = "es" * (self.counts != (1,))
            raise NotFound(f"{self.name} takes {numbers} process{plural}, not {text}.")
        return int(text or self.counts[0])

    def functions(self, strategy: Strategy, processes: int) -> list[Function]:
        """Return what each process does."""
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
        run_again: RunAgain | None = None,
        **arguments: Any,
    ) -> Exploration:
        """Run every schedule of a strategy.

        `run_again` runs each second try, by default in this process without its steps being seen.
        The other `arguments` are those of pginterleave.explore().
        """
        with without_chance():
            return explore(
                self.functions(strategy, processes),
                setup=partial(self.setup, strategy),
                invariant=partial(self._judge, strategy, run_again or run_second_try),
                expected=self.expected,
                **arguments,
            )

    def run(self, strategy: Strategy, processes: int, order: str) -> Schedule:
        """Run the one schedule written `order`, observing the rows after each step."""
        with without_chance():
            return run_schedule(
                order,
                self.functions(strategy, processes),
                setup=partial(self.setup, strategy),
                invariant=partial(self._judge, strategy, run_second_try),
                expected=self.expected,
                options=Options(observe=self.rows),
            )

    def _judge(self, strategy: Strategy, run_again: RunAgain, outcomes: list[Outcome]) -> str:
        """Run the second tries, and return what does not hold then, or ""."""
        final = list(outcomes)
        second_try = self.second_try or self.process
        for number, outcome in enumerate(outcomes, start=1):
            if outcome.returned is AGAIN:
                again = final[number - 1] = run_again(number, partial(second_try, strategy, number))
                if again.raised and not isinstance(again.raised, self.expected):
                    error = type(again.raised).__name__
                    return f"process {number} raises {error} when it tries again"
        return self.check(final)


def run_second_try(_number: int, function: Function) -> Outcome:
    """Run a second try in this process, and return its outcome.

    Only the recorder, which has a function of its own, needs the number.
    """
    try:
        return Outcome(returned=function())
    except Exception as error:
        return Outcome(raised=error)


@contextmanager
def without_chance() -> Iterator[None]:
    """Within the block, let all processes read the same time and draw the same slot.

    No timer fires. So the worst case of a strategy that relies on chance happens.
    """
    with ExitStack() as patches:
        for module, name, value in (
            (timestamp_key, "time_ns", lambda: 1_700_000_000_000_000_000),
            (in_memory, "Timer", lambda *_: Thread()),  # which does nothing
            (in_memory, "HITS", in_memory.Hits()),  # lost with the process
            (slotted_counter, "randrange", lambda _: 0),
        ):
            patches.enter_context(patch.object(module, name, value))
        yield
