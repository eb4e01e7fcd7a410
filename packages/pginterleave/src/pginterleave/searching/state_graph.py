"""The graph of the states between steps: each of its paths is a schedule. It does no I/O.

Each state has a trace. Equal traces lead to the same state: the orders differ only in the order of
adjacent independent steps. A state is derived if its step did not run, because other steps that ran
show where it leads.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from pginterleave.choices import ENDED, Order, Positions, process_of, victim_of
from pginterleave.sql.dependent_steps import Claim, Claims, Effect, RowLock, are_dependent


class Event(NamedTuple):
    """A step that was taken, and how many earlier steps of each process it depends on."""

    kind: str
    sql: str
    effect: Effect
    victim: int  # of the deadlock that it closes; 0 if it is the same process, or there is none
    depends: tuple[int, ...]  # the numbers of these earlier steps, by process


Trace = tuple[tuple[Event, ...], ...]  # the events of each process
Effects = dict[int, Effect]  # of the next step of each process that can take one, by its choice


class Ending(IntEnum):
    """How a schedule has ended; VIOLATED and RAISED count as violations."""

    HOLDS = 0
    VIOLATED = 1  # the invariant does not hold
    RAISED = 2  # a process raised an exception that is not expected


@dataclass(slots=True, eq=False)
class State:
    """A state between steps, and the known steps that follow it."""

    order: Order  # the steps that led here first
    trace: Trace
    positions: Positions
    ready: Effects
    share: float = 1.0  # the estimated part of the search that follows the state
    # By choice, the state that the step leads to. Until a schedule has taken the step, it is the
    # fewest preemptions of a schedule that takes it, or None if that number is not known.
    steps: "dict[int, State | int | None]" = field(init=False)
    fewest_preemptions: dict[int, int] = field(default_factory=dict)  # to here, by last choice
    ending: Ending = Ending.HOLDS  # if all processes have ended
    claims: Claims = ()  # the locks that processes hold and request; (): not known
    waiting: tuple[int, ...] = ()  # processes that wait by a statement that did not run: derived
    base: "State | None" = None  # the state before these statements

    def __post_init__(self) -> None:
        self.steps = dict.fromkeys(self.ready)

    def trace_after(self, choice: int) -> Trace:
        """Return the trace of the state that a step leads to."""
        process = process_of(choice)
        position = self.positions[process - 1]
        effect = self.ready[choice]
        depends = tuple(
            sum(are_dependent(effect, event.effect) for event in events) for events in self.trace
        )
        event = Event(position.kind, position.sql, effect, victim_of(choice), depends)
        return _replace_value(self.trace, process, (*self.trace[process - 1], event))

    def is_preemption(self, last: int, choice: int) -> bool:
        """Whether a step interrupts the process that took the step `last` and could go on."""
        return process_of(last) != process_of(choice) and process_of(last) in self.ready

    def list_taken(self) -> "list[tuple[int, State]]":
        """Return the steps that were taken, by their choices, each with the state after it."""
        return [(choice, after) for choice, after in self.steps.items() if isinstance(after, State)]

    def find_awaited_lock(self, process: int) -> RowLock | None:
        """Return the lock that the next step of a process certainly waits for, or None."""
        claim = self.claims[process - 1] if self.claims else Claim()
        for lock in [lock for other in self.claims for lock in other.locks]:
            would_wait = claim.has_only_equality or claim.statement == lock.statement
            if lock.process != process and lock.row == claim.row and would_wait:
                return lock
        return None

    def has_waits(self) -> bool:
        """Whether a process waits: PostgreSQL has said so, or it was derived."""
        return bool(self.waiting) or any(position.blockers for position in self.positions)

    def derive_after_step(self, process: int, after_both: "State") -> "State":
        """Return the state after a step, from the state after both this step and another one."""
        ready = self._list_other_effects(process)
        if process in after_both.ready:
            ready[process] = after_both.ready[process]
        position = after_both.positions[process - 1] if after_both.positions else ENDED
        claim = after_both.claims[process - 1] if after_both.claims else Claim()
        return State(
            (*self.order, process),
            self.trace_after(process),
            _replace_value(self.positions, process, position),
            dict(sorted(ready.items())),
            claims=_replace_value(self.claims, process, claim),
        )

    def derive_after_wait(self, process: int) -> "State":
        """Return the state after a process has sent a statement that waits."""
        return State(
            (*self.order, process),
            self.trace_after(process),
            self.positions,
            self._list_other_effects(process),
            share=0.0,  # the estimate leaves out what follows
            claims=self.claims,
            waiting=(*self.waiting, process),
            base=self.base or self,
        )

    def _list_other_effects(self, process: int) -> Effects:
        return {choice: effect for choice, effect in self.ready.items() if choice != process}


def count_endings(first: State) -> Counter[Ending]:
    """Count the schedules, which are the paths from the first state, by how they end."""
    endings = Counter[Ending]()
    paths = {first: 1}  # the number of paths of one length, by the state that they lead to
    while paths:
        longer: dict[State, int] = defaultdict(int)
        for state, number in paths.items():
            if not state.steps:
                endings[state.ending] += number
            for _, after in state.list_taken():
                longer[after] += number
        paths = longer
    return endings


def find_shortest_violation(first: State) -> Order | None:
    """Return the shortest violating order, of several the one with the fewest switches; or None."""
    # By state and process of the last step: the fewest switches between processes, and the order.
    best: dict[tuple[State, int], tuple[int, Order]] = {(first, 0): (0, ())}
    while best:
        # Only the last state of a schedule has another ending than HOLDS.
        violating = [ranked for (state, _), ranked in best.items() if state.ending != Ending.HOLDS]
        if violating:
            _, shortest = min(violating)
            return shortest
        longer: dict[tuple[State, int], tuple[int, Order]] = {}
        for (state, last), (switches, order) in best.items():
            for choice, after in state.list_taken():
                process = process_of(choice)
                is_switch = last not in (0, process)  # 0: it is the first step
                new = switches + is_switch, (*order, choice)
                longer[after, process] = min(new, longer.get((after, process), new))
        best = longer
    return None


def _replace_value(values: tuple[Any, ...], process: int, value: Any) -> tuple[Any, ...]:
    """Return a tuple with a value for each process, in which one is replaced; () stays ()."""
    return (*values[: process - 1], value, *values[process:]) if values else ()
