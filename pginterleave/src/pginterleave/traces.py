"""The choices of a schedule, and its trace: equal traces lead to the same state. It does no I/O.

A choice says which process takes the next step, and which is ended by a deadlock. It is the number
of a process. If the step closes a deadlock with another victim, ten times the victim's number is
added. The process is written as a digit, and the victim as a letter: in `2a` process 2 takes the
step, and process 1 (a) is the victim. Without a letter, the victim is the process that closed the
deadlock.

Two orders have the same trace if they differ only in the order of adjacent independent steps.
Traces that differ only in an exchange of equal processes lead to states that differ only in that
exchange.
"""

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from pginterleave.effects import Effect, dependent

Order = tuple[int, ...]  # the choices of a schedule, or of its first steps


def process_of(choice: int) -> int:
    return choice % 10


def victim_of(choice: int) -> int:
    """Return the number of the process that is to be the victim, or 0."""
    return choice // 10


def with_victim(process: int, victim: int) -> int:
    return 10 * victim + process


def renumbered(choice: int, numbers: Sequence[int]) -> int:
    victim = victim_of(choice)
    return with_victim(numbers[process_of(choice) - 1], numbers[victim - 1] if victim else 0)


def written(choices: Sequence[int]) -> str:
    return "".join(
        f"{process_of(each)}{chr(ord('a') - 1 + victim_of(each)) if victim_of(each) else ''}"
        for each in choices
    )


def parsed(order: str) -> list[int]:
    """Return the choices of a schedule; what is none is left out."""
    found = re.findall(r"([1-9])([a-i]?)", order)
    return [
        int(digit) + (10 * (ord(victim) - ord("a") + 1) if victim else 0) for digit, victim in found
    ]


def waits_of_victims(choices: Sequence[int]) -> dict[int, int]:
    """Return where each victim waits, and where its deadlock is closed; steps count from 0."""
    waits = {}
    for closing, choice in enumerate(choices):
        earlier = [i for i in range(closing) if process_of(choices[i]) == victim_of(choice)]
        if victim_of(choice) and earlier:
            waits[earlier[-1]] = closing
    return waits


Names = tuple[int, ...]  # the number that each process is given; () if it keeps its own


class Event(NamedTuple):
    """A step that was taken, and the earlier ones that it depends on."""

    depends: int  # on how many
    kind: str
    sql: str
    effect: Effect
    victim: int  # of the deadlock that it closes; 0 if that is its own process, or there is none
    before: tuple[int, ...]  # on how many of each process


Trace = tuple[tuple[Event, ...], ...]  # the events of each process


def extended(trace: Trace, choice: int, kind: str, sql: str, effect: Effect) -> Trace:
    number, victim = process_of(choice), victim_of(choice)
    before = tuple(sum(dependent(effect, event.effect) for event in each) for each in trace)
    own = (*trace[number - 1], Event(sum(before), kind, sql, effect, victim, before))
    return (*trace[: number - 1], own, *trace[number:])


def canonical(trace: Trace, alike: Sequence[Sequence[int]]) -> tuple[Names, Trace]:
    """Exchange processes so that traces that differ only in an exchange become equal.

    In each set of equal processes, the process that has done most gets the lowest number. Where
    several have done as much, traces may stay different, and both are explored.

    Returns the numbers that the processes have been given, and the trace.
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


@functools.lru_cache(maxsize=2**16)  # for the memory, as many traces have the same event
def _exchanged(event: Event, names: Names, back: Names) -> Event:
    victim = names[event.victim - 1] if event.victim else 0
    before = tuple(event.before[number - 1] for number in back)
    return Event(*event[:4], victim, before)


def inverse(names: Names) -> Names:
    """Return which process has been given each number."""
    return tuple(names.index(number) + 1 for number in range(1, len(names) + 1))


def composed(first: Names, second: Names) -> Names:
    """Return the numbers that the second gives to those that the first has given."""
    return tuple(second[number - 1] for number in first)
