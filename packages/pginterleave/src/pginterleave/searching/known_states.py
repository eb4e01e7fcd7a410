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

MAX_CHOICE = 9  # a larger choice names the victim of a deadlock


class KnownStates:
    """The graph of the known states, and the steps that were not yet taken from them.

    `reduces` merges the states of equivalent orders, and derives states.
    """

    def __init__(self, *, reduces: bool) -> None:
        self.reduces = reduces
        self.deriving: set[tuple[State, int]] = set()  # steps for which this was tried
        self.overlaid: dict[tuple[State, tuple[int, ...]], State] = {}  # with statements that wait
        self.states: dict[Trace, State] = {}  # the states that several orders may lead to
        self.pending: list[tuple[int, Order, State]] = []  # by preemptions: steps not yet taken
        self.done = 0.0  # the share of the search that is done

    def find(self, state: State, number: int) -> State | None:
        """Return the state that a step leads to, if that is known from equivalent orders.

        Raises Needed if another step has to run first.
        """
        if not self.reduces or number > MAX_CHOICE:
            return None if state.waiting else self.find_equal(state, number)
        if state.waiting or waits_for(state.claims, number):
            parts = state_graph.derive_wait(state, number, self._follow)
            return parts and self._with_waits(*parts)
        return self.find_equal(state, number) or self._derive(state, number)

    def _with_waits(self, base: State, waiting: tuple[int, ...]) -> State:
        """Return the state after statements that wait, in this order."""
        if not waiting:
            return base
        if (base, waiting) not in self.overlaid:
            before = self._with_waits(base, waiting[:-1])
            number = waiting[-1]
            self.overlaid[base, waiting] = state_graph.add_wait(before, number)
            self.link(before, number, self.overlaid[base, waiting])
        return self.overlaid[base, waiting]

    def _follow(self, state: State, number: int) -> State | None:
        """Return the state that a step leads to, if it was taken or can be derived."""
        after = state.steps.get(number)
        if isinstance(after, State):
            return after
        if waits_for(state.claims, number):
            return None
        known = self.find_equal(state, number) or self._derive(state, number)
        if known:
            self.link(state, number, known)
        return known

    def _derive(self, state: State, number: int) -> State | None:
        if (state, number) in self.deriving:
            return None
        self.deriving.add((state, number))
        derived = state_graph.derive_after_independent(state, number, self._follow)
        if derived:
            derived.share = state.share / len(state.steps)
            self.states[derived.trace] = derived
        return derived

    def find_equal(self, state: State, number: int) -> State | None:
        """Return the state that a step leads to, if an equivalent order has led there."""
        return self.states.get(state.trace_after(number)) if self.reduces else None

    def link(self, before: State, number: int, after: State) -> None:
        if after.fewest:
            self.done += before.share / len(before.steps)
        before.steps[number] = after
        for last, preemptions in before.fewest.items():
            self.spread(after, number, preemptions + before.preempts(last, number))

    def spread(self, state: State, last: int, preemptions: int) -> None:
        """Note the fewest preemptions that lead to a state, and to the states that follow it."""
        reached = [(state, last, preemptions)]
        while reached:
            state, last, preemptions = reached.pop()
            if state.fewest.get(last, math.inf) <= preemptions:
                continue
            state.fewest[last] = preemptions
            for number, after in state.steps.items():
                fewest = preemptions + state.preempts(last, number)
                if isinstance(after, State):
                    reached.append((after, number, fewest))
                else:
                    self.offer(state, number, fewest)

    def offer(self, state: State, number: int, preemptions: int) -> None:
        """Note that a schedule with so many preemptions could take a step not yet taken."""
        known = state.steps[number]
        if known is None or (isinstance(known, int) and preemptions < known):
            state.steps[number] = preemptions
            heapq.heappush(self.pending, (preemptions, (*state.order, number), state))
