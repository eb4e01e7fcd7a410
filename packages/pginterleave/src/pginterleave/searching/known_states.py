"""The states that are known, so that the search need not run a step again to reach them.

A state is known if a schedule or an equivalent order has led to it, or if it can be derived without
running the step before it. This does no I/O. The steps of two kinds need not run. The first kind
has already run after an independent step of another process. The second kind is a statement that
certainly waits for a row. It leads to the same state as if it were sent after the end of the
transaction that has locked the row.
"""

import heapq
import math
from typing import NamedTuple

from pginterleave.choices import Order, victim_of
from pginterleave.searching.state_graph import State, Trace
from pginterleave.sql.dependent_steps import GLOBAL, are_dependent


class AnotherStepNeeded(Exception):
    """A step has to run before the state after another step can be derived."""

    def __init__(self, state: State, process: int) -> None:
        self.state = state
        self.process = process


class StateWithWaits(NamedTuple):
    """The state `base`, after which these processes have sent statements that wait."""

    base: State
    waiting: tuple[int, ...]


class KnownStates:
    """The graph of the known states, and the steps that were not yet taken from them.

    `reduces` merges the states of equivalent orders, and derives states.
    """

    def __init__(self, *, reduces: bool) -> None:
        self.reduces = reduces
        self.tried: set[tuple[State, int]] = set()  # steps whose states could not be derived
        self.states_with_waits: dict[StateWithWaits, State] = {}
        self.states: dict[Trace, State] = {}  # the states that several orders may lead to
        # A heap of steps not yet taken: the preemptions, the order with the step, the state before.
        self.pending: list[tuple[int, Order, State]] = []
        self.share_done = 0.0  # the part of the search that is done, from 0 to 1

    def find_known_after(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to; None: it must run. May raise AnotherStepNeeded."""
        if not self.reduces or victim_of(choice):
            return None if state.waiting else self.find_equivalent(state, choice)
        if state.waiting or state.find_awaited_lock(choice):
            derived = self._derive_wait(state, choice)
            return self._find_state_with_waits(derived) if derived else None
        return self._find_or_derive(state, choice)

    def _find_state_with_waits(self, derived: StateWithWaits) -> State:
        """Return the state after the base and the waiting statements, sent in this order."""
        if not derived.waiting:
            return derived.base
        if derived not in self.states_with_waits:
            *earlier, process = derived.waiting
            before = self._find_state_with_waits(StateWithWaits(derived.base, tuple(earlier)))
            state = before.derive_after_wait(process)
            self.states_with_waits[derived] = state
            self.link(before, process, state)
        return self.states_with_waits[derived]

    def _take_known_step(self, state: State, process: int) -> State | None:
        """Return the state after a step, and link the two; None if it waits or is not known."""
        after = state.steps.get(process)
        if isinstance(after, State):
            return after
        if state.find_awaited_lock(process):
            return None
        known = self._find_or_derive(state, process)
        if known:
            self.link(state, process, known)
        return known

    def _find_or_derive(self, state: State, process: int) -> State | None:
        """Return the state that a step leads to, or None; derive it, if that was not tried yet."""
        known = self.find_equivalent(state, process)
        if known or (state, process) in self.tried:
            return known
        self.tried.add((state, process))
        if state.has_waits():
            return None
        for other in state.ready:
            after_both = self._find_after_both(state, other, process)
            if after_both:
                derived = state.derive_after_step(process, after_both)
                derived.share = state.share / len(state.steps)
                self.states[derived.trace] = derived
                return derived
        return None

    def _find_after_both(self, state: State, other: int, process: int) -> State | None:
        """Return the state after two independent steps; None if one may affect the other."""
        if other == process or are_dependent(state.ready[other], state.ready[process]):
            return None
        after_other = self._take_known_step(state, other)
        if after_other is None or after_other.has_waits() or after_other.find_awaited_lock(process):
            return None
        # The other step must not change the effect of this one.
        if after_other.ready.get(process, GLOBAL) != state.ready[process]:
            return None
        after_both = self._take_known_step(after_other, process)
        return None if after_both is None or after_both.has_waits() else after_both

    def _derive_wait(self, state: State, process: int) -> StateWithWaits | None:
        """Return the state after a step that waits or goes beside waits; None: it has to run."""
        base = state.base or state
        lock = base.find_awaited_lock(process)
        if not lock:
            return self._derive_ends_of_waits(base, process, state.waiting)
        if not lock.is_harmless:
            return None
        while lock and lock.process in state.waiting:  # the holder of the lock waits for another
            lock = base.find_awaited_lock(lock.process)
        closes_deadlock = lock is None or lock.process == process
        return None if closes_deadlock else StateWithWaits(base, (*state.waiting, process))

    def _derive_ends_of_waits(
        self, base: State, process: int, waiting: tuple[int, ...]
    ) -> StateWithWaits | None:
        """Return the state after a step that does not wait, and after the waits that it ends."""
        after = self._take_plain_step(base, process)
        still_waiting: list[int] = []
        for other in waiting:
            if after and after.find_awaited_lock(other):
                still_waiting.append(other)
            elif after:
                after = self._end_wait(after, other)
        if after is None:
            return None
        locks = [after.find_awaited_lock(other) for other in still_waiting]
        has_harm = any(lock and not lock.is_harmless for lock in locks)
        return None if has_harm else StateWithWaits(after, tuple(still_waiting))

    def _end_wait(self, before: State, process: int) -> State | None:
        """Return the state in which a statement that waited went on, as if it were sent now."""
        after = self._take_plain_step(before, process)
        claim = before.claims[process - 1]
        if after is None or claim.has_only_equality:
            return after
        # A statement that has waited keeps the lock even if its row no longer meets the conditions.
        locks = after.claims[process - 1].locks if after.claims else ()
        return after if claim.row in [lock.row for lock in locks] else None

    def _take_plain_step(self, before: State, process: int) -> State | None:
        """Return the state after a step; None if it may affect every process, or one waits."""
        after = self._take_known_step(before, process)
        if after is None:
            raise AnotherStepNeeded(before, process)
        return None if after.has_waits() or before.ready[process] == GLOBAL else after

    def find_equivalent(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if an equivalent order has led there."""
        return self.states.get(state.trace_after(choice)) if self.reduces else None

    def link(self, before: State, choice: int, after: State) -> None:
        """Note that a step leads from one state to another."""
        if after.fewest_preemptions:  # it was reached before: what follows it need not run again
            self.share_done += before.share / len(before.steps)
        before.steps[choice] = after
        for last, preemptions in before.fewest_preemptions.items():
            with_step = preemptions + before.is_preemption(last, choice)
            self.spread_preemptions(after, choice, with_step)

    def spread_preemptions(self, state: State, last: int, preemptions: int) -> None:
        """Note that so many preemptions lead to a state, by the step `last`, and behind it."""
        reached = [(state, last, preemptions)]
        while reached:
            state, last, preemptions = reached.pop()
            if state.fewest_preemptions.get(last, math.inf) <= preemptions:
                continue
            state.fewest_preemptions[last] = preemptions
            for choice, after in state.steps.items():
                with_step = preemptions + state.is_preemption(last, choice)
                if isinstance(after, State):
                    reached.append((after, choice, with_step))
                else:
                    self.offer_step(state, choice, with_step)

    def offer_step(self, state: State, choice: int, preemptions: int) -> None:
        """Note that a schedule with so many preemptions could take a step not yet taken."""
        fewest = state.steps[choice]
        if not isinstance(fewest, int) or preemptions < fewest:
            state.steps[choice] = preemptions
            heapq.heappush(self.pending, (preemptions, (*state.order, choice), state))
