"""The states that are known, so that the search need not run a step again to reach them.

A state is known if a schedule or an equivalent order has led to it, or if it can be derived. This
does no I/O.
"""

import heapq
import math

from pginterleave.choices import Order
from pginterleave.searching import state_graph
from pginterleave.searching.state_graph import State, Trace
from pginterleave.sql.dependent_steps import waits_for

MAX_PLAIN_CHOICE = 9  # a larger choice names the victim of a deadlock


class KnownStates:
    """The graph of the known states, and the steps that were not yet taken from them.

    `reduces` merges the states of equivalent orders, and derives states.
    """

    def __init__(self, *, reduces: bool) -> None:
        self.reduces = reduces
        self.tried: set[tuple[State, int]] = set()  # steps whose state was to be derived
        self.with_waits: dict[tuple[State, tuple[int, ...]], State] = {}  # by the waiting processes
        self.states: dict[Trace, State] = {}  # the states that several orders may lead to
        # A heap of steps not yet taken: the preemptions, the order with the step, the state before.
        self.pending: list[tuple[int, Order, State]] = []
        self.share_done = 0.0  # of the whole search

    def find_after(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if that is known from equivalent orders.

        Raises Needed if another step has to run first.
        """
        if not self.reduces or choice > MAX_PLAIN_CHOICE:
            return None if state.waiting else self.find_equivalent(state, choice)
        if state.waiting or waits_for(state.claims, choice):
            derived = state_graph.derive_wait(state, choice, self._follow)
            return self._add_waits(derived.base, derived.waiting) if derived else None
        return self.find_equivalent(state, choice) or self._derive(state, choice)

    def _add_waits(self, base: State, waiting: tuple[int, ...]) -> State:
        """Return the state after `base` in which these processes have sent statements that wait."""
        if not waiting:
            return base
        if (base, waiting) not in self.with_waits:
            before = self._add_waits(base, waiting[:-1])
            process = waiting[-1]
            self.with_waits[base, waiting] = state_graph.add_wait(before, process)
            self.link(before, process, self.with_waits[base, waiting])
        return self.with_waits[base, waiting]

    def _follow(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if it was taken or can be derived."""
        after = state.steps.get(choice)
        if isinstance(after, State):
            return after
        if waits_for(state.claims, choice):
            return None
        known = self.find_equivalent(state, choice) or self._derive(state, choice)
        if known:
            self.link(state, choice, known)
        return known

    def _derive(self, state: State, choice: int) -> State | None:
        """Return the state that a step leads to, if it can be derived and this was not tried."""
        if (state, choice) in self.tried:
            return None
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
        if after.fewest:  # it was reached before, so no schedule is left to run behind this step
            self.share_done += before.share / len(before.steps)
        before.steps[choice] = after
        for last, preemptions in before.fewest.items():
            fewest = preemptions + before.is_preemption(last, choice)
            self.spread_preemptions(after, choice, fewest)

    def spread_preemptions(self, state: State, last: int, preemptions: int) -> None:
        """Note the fewest preemptions up to a state after the step `last`, and behind the state."""
        reached = [(state, last, preemptions)]
        while reached:
            state, last, preemptions = reached.pop()
            if state.fewest.get(last, math.inf) <= preemptions:
                continue
            state.fewest[last] = preemptions
            for choice, after in state.steps.items():
                fewest = preemptions + state.is_preemption(last, choice)
                if isinstance(after, State):
                    reached.append((after, choice, fewest))
                else:
                    self.offer_step(state, choice, fewest)

    def offer_step(self, state: State, choice: int, preemptions: int) -> None:
        """Note that a schedule with so many preemptions could take a step not yet taken."""
        known = state.steps[choice]
        if known is None or (isinstance(known, int) and preemptions < known):
            state.steps[choice] = preemptions
            heapq.heappush(self.pending, (preemptions, (*state.order, choice), state))
