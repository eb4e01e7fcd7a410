"""The trace of a schedule: equal traces lead to the same state. It does no I/O.

Two orders have the same trace if they differ only in the order of adjacent independent steps.
"""

from typing import NamedTuple

from pginterleave.choices import process_of, victim_of
from pginterleave.sql.dependent_steps import Effect, are_dependent


class Event(NamedTuple):
    """A step that was taken, and the numbers of earlier steps that it depends on."""

    depends: int  # of all processes
    kind: str
    sql: str
    effect: Effect
    victim: int  # of the deadlock that it closes; 0 if it is the same process, or there is none
    before: tuple[int, ...]  # of each process


Trace = tuple[tuple[Event, ...], ...]  # the events of each process


def extend(trace: Trace, choice: int, kind: str, sql: str, effect: Effect) -> Trace:
    number, victim = process_of(choice), victim_of(choice)
    before = tuple(sum(are_dependent(effect, event.effect) for event in events) for events in trace)
    own = (*trace[number - 1], Event(sum(before), kind, sql, effect, victim, before))
    return (*trace[: number - 1], own, *trace[number:])
