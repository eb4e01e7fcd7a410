"""The graph of the states between steps: each of its paths is a schedule. It does no I/O.

Each state has a trace. Equal traces lead to the same state: the orders differ only in the order of
adjacent independent steps.

The state after a step can be derived without running the step, for two kinds of steps. The first
kind has already run after an independent step of another process. The second kind is a statement
that certainly waits for a row. It leads to the same state as if it were sent after the end of the
transaction that has locked the row.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from pginterleave.choices import ENDED, Order, Positions, process_of, victim_of
from pginterleave.sql.dependent_steps import GLOBAL, Claim, Claims, Effect, RowLock, are_dependent


class Event(NamedTuple):
    """A step that was taken, and how many earlier steps of each process it depends on."""

    kind: str
    sql: str
    effect: Effect
    victim: int  # of the deadlock that it closes; 0 if it is the same process, or there is none
    depends: tuple[int, ...]  # the number of earlier steps of each process


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
    share: float = 1.0  # the part of the search behind the state, as far as it is known
    # By choice, the state that the step leads to. Until a schedule has taken the step, it is the
    # fewest preemptions of a schedule that takes it, or None if that number is not known.
    steps: "dict[int, State | int | None]" = field(init=False)
    fewest: dict[int, int] = field(default_factory=dict)  # preemptions, by the last step's choice
    ending: Ending = Ending.HOLDS  # if all processes have ended
    claims: Claims = ()
    waiting: tuple[int, ...] = ()  # processes whose waiting statement was derived, and not run
    base: "State | None" = None  # the state without these statements

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
        return bool(self.waiting) or any(position.blockers for position in self.positions)


Follow = Callable[[State, int], State | None]  # returns the state after a step, if it is known


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


class Needed(Exception):
    """A step has to run before the state after another step can be derived."""

    def __init__(self, state: State, process: int) -> None:
        self.state = state
        self.process = process


def derive_after_independent(state: State, process: int, follow: Follow) -> State | None:
    """Return the state after the step of a process, if an independent step led to it; or None.

    The process is as in the state after both steps, and all else is as in the state before.
    """
    if state.has_waits():
        return None
    for other in state.ready:
        after_both = _find_after_both(state, other, process, follow)
        if after_both is None:
            continue
        ready = {choice: state.ready[choice] for choice in state.ready if choice != process}
        if process in after_both.ready:
            ready[process] = after_both.ready[process]
        position = after_both.positions[process - 1] if after_both.positions else ENDED
        claim = after_both.claims[process - 1] if after_both.claims else Claim()
        return State(
            (*state.order, process),
            state.trace_after(process),
            _replace_value(state.positions, process, position),
            dict(sorted(ready.items())),
            claims=_replace_value(state.claims, process, claim),
        )
    return None


def _find_after_both(state: State, other: int, process: int, follow: Follow) -> State | None:
    """Return the state after two independent steps; None if one may affect the other."""
    if other == process or are_dependent(state.ready[other], state.ready[process]):
        return None
    after_other = follow(state, other)
    if after_other is None or after_other.has_waits() or after_other.find_awaited_lock(process):
        return None
    # The other step must not change the effect of this one.
    if after_other.ready.get(process, GLOBAL) != state.ready[process]:
        return None
    after_both = follow(after_other, process)
    return None if after_both is None or after_both.has_waits() else after_both


def _replace_value(values: tuple[Any, ...], process: int, value: Any) -> tuple[Any, ...]:
    """Return a tuple with a value for each process, in which one is replaced; () stays ()."""
    return (*values[: process - 1], value, *values[process:]) if values else ()


class StateWithWaits(NamedTuple):
    """The state `base`, after which these processes have sent statements that wait."""

    base: State
    waiting: tuple[int, ...]


def derive_wait(state: State, process: int, follow: Follow) -> StateWithWaits | None:
    """Return the state after a step that waits, or that is taken while others wait.

    It is None if the step has to run. Raises Needed if another step has to run first.
    """
    base = state.base or state
    lock = base.find_awaited_lock(process)
    if lock is None:
        return _derive_ends_of_waits(base, process, state.waiting, follow)
    if not lock.is_harmless:
        return None
    while lock and lock.process in state.waiting:
        lock = base.find_awaited_lock(lock.process)
    closes_deadlock = lock is None or lock.process == process
    return None if closes_deadlock else StateWithWaits(base, (*state.waiting, process))


def _derive_ends_of_waits(
    base: State, process: int, waiting: tuple[int, ...], follow: Follow
) -> StateWithWaits | None:
    """Return the state after a step that does not wait, and after the waits that it ends."""
    after = _find_after_plain_step(base, process, follow)
    still_waiting: list[int] = []
    for other in waiting:
        if after and after.find_awaited_lock(other):
            still_waiting.append(other)
        elif after:
            after = _find_after_wait(after, other, follow)
    if after is None:
        return None
    locks = [after.find_awaited_lock(other) for other in still_waiting]
    has_harm = any(lock and not lock.is_harmless for lock in locks)
    return None if has_harm else StateWithWaits(after, tuple(still_waiting))


def _find_after_wait(before: State, process: int, follow: Follow) -> State | None:
    """Return the state in which a statement that waited went on, as if it were sent only now."""
    after = _find_after_plain_step(before, process, follow)
    claim = before.claims[process - 1]
    if after is None or claim.has_only_equality:
        return after
    # A statement that has waited keeps the lock even if its row no longer meets the conditions.
    locks = after.claims[process - 1].locks if after.claims else ()
    return after if claim.row in [lock.row for lock in locks] else None


def _find_after_plain_step(before: State, process: int, follow: Follow) -> State | None:
    """Return the state after a step; None if the step may affect every process, or one waits."""
    after = follow(before, process)
    if after is None:
        raise Needed(before, process)
    return None if after.has_waits() or before.ready[process] == GLOBAL else after


def add_wait(before: State, process: int) -> State:
    """Return the state after a statement that waits."""
    ready = {choice: before.ready[choice] for choice in before.ready if choice != process}
    return State(
        (*before.order, process),
        before.trace_after(process),
        before.positions,
        ready,
        share=0.0,
        claims=before.claims,
        waiting=(*before.waiting, process),
        base=before.base or before,
    )
