"""The graph of states that schedules lead through: its paths are the schedules. It does no I/O."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pginterleave.choices import char, process_of, written
from pginterleave.effects import Effect, dependent

Position = tuple[Any, ...]  # kind and SQL of the next step, and whom it waits for; () at the end
Positions = tuple[Position, ...]  # of each process
Event = tuple[str, str, Effect, tuple[int, ...]]  # kind, SQL, effect, how many it depends on
Trace = tuple[tuple[Event, ...], ...]  # the events of each process: the same for equivalent orders


@dataclass(slots=True, eq=False)
class State:
    """What some steps lead to, and what is known of the steps that follow."""

    order: str  # the steps that led here first
    trace: Trace
    positions: Positions
    ready: dict[int, Effect]  # who can take a step, with its effect
    share: float = 1.0  # of the whole search
    # The state that a process's step leads to. While no schedule has taken it: the fewest
    # preemptions of one that would, or None before these are known.
    steps: "dict[int, State | int | None]" = field(default_factory=dict)
    fewest: dict[int, int] = field(default_factory=dict)  # preemptions, by who took the last step
    violates: bool = False  # all have ended, and the invariant does not hold

    def after(self, number: int) -> Trace:
        """Return the trace when that process has taken the next step.

        Two orders have the same trace when they differ only in the order of adjacent independent
        steps. They lead to the same state, and what follows is the same.
        """
        process = process_of(number)
        kind, sql, *_ = self.positions[process - 1]
        kind += written([number])
        effect = self.ready[number]
        before = tuple(sum(dependent(effect, event[2]) for event in each) for each in self.trace)
        own = (*self.trace[process - 1], (kind, sql, effect, before))
        return (*self.trace[: process - 1], own, *self.trace[process:])

    def preempts(self, last: int, number: int) -> bool:
        """Whether a step of this process interrupts the one that took the last step."""
        return process_of(last) != process_of(number) and process_of(last) in self.ready

    def taken(self) -> "Iterator[tuple[int, State]]":
        """Return the steps that a schedule has taken, with what they lead to."""
        for number, after in self.steps.items():
            if isinstance(after, State):
                yield number, after


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
                        following[after][number, preemptions] += each
        ways = following
    return schedules, violating


def shortest_violation(first: State) -> str | None:
    """Return the shortest order that violates the invariant, and of these the simplest.

    That is the one with the fewest switches between processes, and then the first one
    lexicographically. None if there is none.
    """
    simplest = {first: {0: (0, "")}}  # switches and order, by who took the last step
    while simplest:
        ends = [
            each for state, ways in simplest.items() if state.violates for each in ways.values()
        ]
        if ends:
            return min(ends)[1]
        following: dict[State, dict[int, tuple[int, str]]] = defaultdict(dict)
        for state, ways in simplest.items():
            for number, after in state.taken():
                for last, (switches, order) in ways.items():
                    way = (
                        switches + (process_of(last) not in (0, process_of(number))),
                        order + char(number),
                    )
                    known = following[after]
                    known[number] = min(known.get(number, way), way)
        simplest = following
    return None
