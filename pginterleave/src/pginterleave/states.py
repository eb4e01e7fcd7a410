"""The graph of states that schedules lead through: its paths are the schedules. It does no I/O.

States that differ only in an exchange of processes that are alike are one state, which has its own
numbers for them: a step may lead to a state in which another number stands for the same process.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pginterleave.choices import char, process_of, renumbered
from pginterleave.effects import Effect
from pginterleave.traces import Names, Trace, composed, extended, inverse

Position = tuple[Any, ...]  # kind and SQL of the next step, and whom it waits for; () at the end
Positions = tuple[Position, ...]  # of each process
Rest = tuple[int, int]  # how many steps lead to the nearest violation, and with how many switches


@dataclass(slots=True, eq=False)
class State:
    """What some steps lead to, and what is known of the steps that follow."""

    order: str  # the steps that led here first
    trace: Trace
    positions: Positions
    ready: dict[int, Effect]  # who can take a step, with its effect
    names: Names = ()  # the numbers by which states that an exchange makes equal are found
    share: float = 1.0  # of the whole search
    # The state that a process's step leads to. While no schedule has taken it: the fewest
    # preemptions of one that would, or None before these are known.
    steps: "dict[int, State | int | None]" = field(default_factory=dict)
    exchanges: dict[int, Names] = field(default_factory=dict)  # the numbers that such a state has
    fewest: dict[int, int] = field(default_factory=dict)  # preemptions, by who took the last step
    violates: bool = False  # all have ended, and the invariant does not hold

    def after(self, number: int) -> Trace:
        """Return the trace when that process has taken the next step."""
        kind, sql, *_ = self.positions[process_of(number) - 1]
        return extended(self.trace, number, kind, sql, self.ready[number])

    def preempts(self, last: int, number: int) -> bool:
        """Whether a step of this process interrupts the one that took the last step."""
        return process_of(last) != process_of(number) and process_of(last) in self.ready

    def taken(self) -> "Iterator[tuple[int, State]]":
        """Return the steps that a schedule has taken, with what they lead to."""
        for number, after in self.steps.items():
            if isinstance(after, State):
                yield number, after

    def there(self, number: int) -> int:
        """Return who has taken a step, by the numbers of the state that it leads to."""
        exchange = self.exchanges.get(number)
        return renumbered(number, exchange) if exchange else number


def count(first: State, bound: int | None) -> tuple[int, int]:
    """Return how many schedules there are, and how many of them are violating.

    Those with more preemptions than `bound` are left out.
    """
    schedules = violating = 0
    ways = {first: {(0, 0): 1}}  # how many lead there: by who took the last step, and preemptions
    while ways:
        following: dict[State, dict[tuple[int, int], int]] = defaultdict(lambda: defaultdict(int))
        for state, counts in ways.items():
            if not state.steps:
                schedules += sum(counts.values())
                violating += sum(counts.values()) * state.violates
            for number, after in state.taken():
                for (last, preemptions), each in counts.items():
                    if bound is None:
                        following[after][0, 0] += each
                    elif (preemptions := preemptions + state.preempts(last, number)) <= bound:
                        following[after][state.there(number), preemptions] += each
        ways = following
    return schedules, violating


def shortest_violation(first: State) -> str | None:
    """Return the shortest order that violates the invariant, and of these the simplest.

    That is the one with the fewest switches between processes, and then the first one
    lexicographically. None if there is none.
    """
    rests = _rests(first)
    state, last, order = first, 0, ""
    numbers = tuple(range(1, len(first.positions) + 1))  # of the processes, by those of the state
    while not state.violates:
        ways = _ways(rests[state], last)
        if not ways:
            return None
        nearest = min(ways.values())
        steps = {renumbered(each, numbers): each for each in ways if ways[each] == nearest}
        taken = min(steps, key=char)
        order += char(taken)
        number = steps[taken]
        if exchange := state.exchanges.get(number):
            numbers = composed(inverse(exchange), numbers)
        last, after = state.there(number), state.steps[number]
        assert isinstance(after, State)
        state = after
    return order


def _rests(first: State) -> dict[State, dict[int, Rest]]:
    """Return the rest of each step that leads to a violation, by the state before it."""
    rests: dict[State, dict[int, Rest]] = {}
    for state in reversed(_in_order(first)):
        rests[state] = {}
        for number, after in state.taken():
            ways = _ways(rests[after], state.there(number)).values()
            if after.violates or ways:
                steps, switches = min(ways, default=(0, 0))
                rests[state][number] = (steps + 1, switches)
    return rests


def _ways(rests: dict[int, Rest], last: int) -> dict[int, Rest]:
    """Add the switch from the process that took the last step, or 0, to each that may follow."""
    return {
        number: (steps, switches + (process_of(last) not in (0, process_of(number))))
        for number, (steps, switches) in rests.items()
    }


def _in_order(first: State) -> list[State]:
    """Return all states, each before those that follow it."""
    found: list[State] = []
    level = {first: None}
    while level:
        found += level
        level = dict.fromkeys(after for state in level for _, after in state.taken())
    return found
