"""Where a step leads, derived from steps that have run in another order. It does no I/O.

This is known for two kinds of steps. The first kind was taken after an independent step of another
process. The second kind is a statement that certainly waits for a row. It leads to the same state
as if it were sent after the end of the transaction that holds the row.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pginterleave.claims import Claim, waits_for
from pginterleave.effects import GLOBAL, LOCAL, dependent
from pginterleave.states import State

Follow = Callable[[State, int], State | None]  # where a step leads, as far as it is known


class Needed(Exception):
    """A step has to be run before it is known where another one leads."""

    def __init__(self, state: State, number: int) -> None:
        super().__init__()
        self.state, self.number = state, number


def diamond(state: State, number: int, follow: Follow) -> State | None:
    """Return the state that a step leads to, if it was taken after an independent one."""
    if state.somebody_waits():
        return None
    for other in state.ready:
        if other == number or dependent(state.ready[other], state.ready[number]):
            continue
        first = follow(state, other)
        if first is None or first.somebody_waits():
            continue
        effects = state.ready[other], first.ready.get(number, GLOBAL)
        if dependent(*effects) or effects[1] != state.ready[number]:
            continue
        both = None if waits_for(first.claims, number) else follow(first, number)
        if both is None or both.somebody_waits():
            continue
        ready = {each: state.ready[each] for each in state.ready if each != number}
        if number in both.ready:
            ready[number] = both.ready[number]
        return State(
            (*state.order, number),
            state.after(number),
            _with(state.positions, number, both.positions or ((),) * len(state.positions)),
            dict(sorted(ready.items())),
            claims=_with(state.claims, number, both.claims or (Claim(),) * len(state.positions)),
            steps=dict.fromkeys(sorted(ready)),
        )
    return None


def _with(before: tuple[Any, ...], number: int, after: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*before[: number - 1], after[number - 1], *before[number:]) if before else ()


def waiting(state: State, number: int, follow: Follow) -> tuple[State, tuple[int, ...]] | None:
    """Return where a step leads that waits, or that is taken while others wait.

    The result is the state without the waiting statements, and the processes that have sent one, in
    their order. It is None if only running the step can tell.

    Raises Needed if another step has to be run before.
    """
    base, waiting = state.base or state, state.waiting
    if holder := waits_for(base.claims, number):
        while holder in waiting:
            holder = abs(waits_for(base.claims, holder))
        closes_a_deadlock = holder == number
        harmless = waits_for(base.claims, number) > 0
        return (base, (*waiting, number)) if harmless and not closes_a_deadlock else None
    after = _after(base, number, follow)
    if base.ready[number] == GLOBAL or after.somebody_waits():
        return None
    left: list[int] = []
    for each in waiting:
        holder = waits_for(after.claims, each)
        if holder < 0:
            return None
        if holder:
            left.append(each)
            continue
        before, after = after, _after(after, each, follow)
        if before.ready[each] == GLOBAL or after.somebody_waits():
            return None
        # A row that no longer meets the other conditions stays locked when it was waited for.
        claim = before.claims[each - 1]
        if not claim.exact and not (after.claims and after.claims[each - 1].has(claim.wants)):
            return None
    return after, tuple(left)


def _after(state: State, number: int, follow: Follow) -> State:
    after = follow(state, number)
    if after is None:
        raise Needed(state, number)
    return after


def overlaid(before: State, number: int, base: State, waiting: tuple[int, ...]) -> State:
    """Return the state in which processes wait, which the step of one leads to."""
    woken = len(waiting) < len(before.waiting)
    if woken and before.ready[number] != LOCAL:
        before = replace(before, ready={**before.ready, number: GLOBAL})
    ready = {each: base.ready[each] for each in base.ready if each not in waiting}
    return State(
        (*before.order, number),
        before.after(number),
        base.positions,
        ready,
        share=0.0,
        claims=base.claims,
        steps=dict.fromkeys(ready),
        waiting=waiting,
        base=base,
    )
