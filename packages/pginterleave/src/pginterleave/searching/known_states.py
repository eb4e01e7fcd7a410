"""The states that are known, so that the search need not run a step again to reach them.

A state is known if a schedule or an equivalent order has led to it, or if it can be derived. This
does no I/O.
"""

import heapq
import math

from pginterleave.choices import Order, victim_of
from pginterleave.searching import state_graph
from pginterleave.searching.state_graph import State, StateWithWaits, Trace


class KnownStates:
    """The graph of the known states, and the steps that were not yet taken from them.

    `reduces` merges the states of equivalent orders, and derives states.
    """

    def __init__(self, *, reduces: bool) -> None:
        self.reduces = reduces
        self.tried: set[tuple[State, int]] = set()  # steps whose state was to be derived just now
        self.states_with_waits: dict[StateWithWaits, State] = {}
        self.states: dict[Trace, State] = {}  # the states that several orders may lead to
        # A heap of steps not yet taken: the preemptions, the order with the step, the state before.
        self.pending: list[tuple[int, Order, State]] = []
        self.share_done = 0.0  # the part of the search that is done, from 0 to 1

    def find_after(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if equivalent orders show it. May raise Needed."""
        if not self.reduces or victim_of(choice):
            return None if state.waiting else self.find_equivalent(state, choice)
        if state.waiting or state.find_awaited_lock(choice):
            derived = state_graph.derive_wait(state, choice, self._follow)
            return self._find_state_with_waits(derived) if derived else None
        return self._find_or_derive(state, choice)

    def _find_state_with_waits(self, derived: StateWithWaits) -> State:
        """Return the state in which these processes have sent their statements, in turn."""
        if not derived.waiting:
            return derived.base
        if derived not in self.states_with_waits:
            *earlier, process = derived.waiting
            before = self._find_state_with_waits(StateWithWaits(derived.base, tuple(earlier)))
            state = state_graph.add_wait(before, process)
            self.states_with_waits[derived] = state
            self.link(before, process, state)
        return self.states_with_waits[derived]

    def _follow(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if it was taken or can be derived."""
        after = state.steps.get(choice)
        if isinstance(after, State):
            return after
        if state.find_awaited_lock(choice):
            return None
        known = self._find_or_derive(state, choice)
        if known:
            self.link(state, choice, known)
        return known

    def _find_or_derive(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if it is known, or derived at the first try."""
        known = self.find_equivalent(state, choice)
        if known or (state, choice) in self.tried:
            return known
        self.tried.add((state, choice))
        derived = state_graph.derive_after_independent(state, choice, self._follow)
        if derived:
            derived.share = state.share / len(state.steps)
            self.states[derived.trace] = derived
        return derived

    def find_equivalent(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if an equivalent order has led there."""
        return self.states.get(state.trace_after(choice)) if self.reduces else None

    def link(self, before: State, choice: int, after: State) -> None:
        """Note that a step leads from one state to another."""
        if after.fewest:  # `after` was reached before: no schedule is left to run behind this step
            self.share_done += before.share / len(before.steps)
        before.steps[choice] = after
        for last, preemptions in before.fewest.items():
            with_step = preemptions + before.is_preemption(last, choice)
            self.spread_preemptions(after, choice, with_step)

    def spread_preemptions(self, state: State, last: int, preemptions: int) -> None:
        """Note that so many preemptions lead to a state, by the step `last`, and behind it."""
        reached = [(state, last, preemptions)]
        while reached:
            state, last, preemptions = reached.pop()
            if state.fewest.get(last, math.inf) <= preemptions:
                continue
            state.fewest[last] = preemptions
            for choice, after in state.steps.items():
                with_step = preemptions + state.is_preemption(last, choice)
                if isinstance(after, State):
                    reached.append((after, choice, with_step))
                else:
                    self.offer_step(state, choice, with_step)

    def offer_step(self, state: State, choice: int, preemptions: int) -> None:
        """Note that a schedule with so many preemptions could take a step not yet taken."""
        fewest = state.steps[choice]
        if isinstance(fewest, State):
            return
        if fewest is None or preemptions < fewest:
            state.steps[choice] = preemptions
            heapq.heappush(self.pending, (preemptions, (*state.order, choice), state))
