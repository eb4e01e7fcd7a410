"""The trace of a schedule: equal traces lead to the same state. It does no I/O.

Two orders have the same trace if they differ only in the order of adjacent independent steps.
Traces that differ only in an exchange of equal processes lead to states that differ only in that
exchange.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from pginterleave.choices import process_of, renumbered, victim_of
from pginterleave.sql.dependent_steps import Effect, dependent

Names = tuple[int, ...]  # the new number of each process; () if there was no exchange


class Event(NamedTuple):
    """A step that was taken, and the numbers of earlier steps that it depends on."""

    depends: int  # of all processes
    kind: str
    sql: str
    effect: Effect
    victim: int  # of the deadlock that it closes; 0 if it is the same process, or there is none
    before: tuple[int, ...]  # of each process


Trace = tuple[tuple[Event, ...], ...]  # the events of each process


def extended(trace: Trace, choice: int, kind: str, sql: str, effect: Effect) -> Trace:
    number, victim = process_of(choice), victim_of(choice)
    before = tuple(sum(dependent(effect, event.effect) for event in each) for each in trace)
    own = (*trace[number - 1], Event(sum(before), kind, sql, effect, victim, before))
    return (*trace[: number - 1], own, *trace[number:])


def canonical(trace: Trace, alike: Sequence[Sequence[int]]) -> tuple[Names, Trace]:
    """Exchange processes so that traces that differ only in an exchange become equal.

    In each set of equal processes, the process with the greatest trace gets the lowest number.
    If several traces are equal, the results may still differ, and both are explored.

    Returns the new numbers of the processes, and the trace.
    """
    if not alike:
        return (), trace
    numbers = [*range(1, len(trace) + 1)]
    for each in alike:
        by_events = sorted(each, key=lambda number: trace[number - 1], reverse=True)
        for given, number in zip(each, by_events, strict=True):
            numbers[number - 1] = given
    names = tuple(numbers)
    if numbers == sorted(numbers):
        return names, trace
    back = inverse(names)
    events = (trace[number - 1] for number in back)
    return names, tuple(tuple(_exchanged(event, names, back) for event in each) for each in events)


@functools.lru_cache(maxsize=2**16)  # saves memory: many traces share an event
def _exchanged(event: Event, names: Names, back: Names) -> Event:
    victim = names[event.victim - 1] if event.victim else 0
    before = tuple(event.before[number - 1] for number in back)
    return Event(*event[:4], victim, before)


def inverse(names: Names) -> Names:
    """Return the process that got each number."""
    return tuple(names.index(number) + 1 for number in range(1, len(names) + 1))


def composed(first: Names, second: Names) -> Names:
    """Return the numbers after the first and then the second renumbering."""
    return tuple(renumbered(number, second) for number in first) or second
