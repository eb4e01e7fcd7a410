"""The search over all schedules: chooses the next one. It does no I/O.

Schedules with the fewest preemptions come first, as most races need one or two. A *preemption* is a
step of another process while the process of the last step could go on. With partial-order
reduction, the steps after a state are explored once, in whatever order independent steps led there.
"""

import heapq
import math
from collections import Counter

from pginterleave.choices import ENDED, Order, Position, Positions, make_choice, write_order
from pginterleave.explorer_errors import NotDeterministic
from pginterleave.formatting import format_processes, format_statement
from pginterleave.searching import state_graph
from pginterleave.searching.known_states import AnotherStepNeeded, KnownStates
from pginterleave.searching.state_graph import Effects, Ending, State, Trace
from pginterleave.sql.dependent_steps import GLOBAL, Claims


class Search:
    """Chooses which process takes the next step; schedules with few preemptions come first."""

    def __init__(self, *, reduces: bool = False, max_preemptions: float = math.inf) -> None:
        self.graph = KnownStates(reduces=reduces)
        self.max_preemptions = max_preemptions
        self.first_state: State | None = None
        self.prefix: Order = ()  # the choices that the schedule begins with
        self.counted_preemptions = -1  # every schedule with at most so many is counted; -1: none
        self.has_reached_bound = False  # whether there are schedules with more than max_preemptions
        self.rewind()

    def rewind(self) -> None:
        """Begin a schedule, or begin it again."""
        self.order: Order = ()
        self.path: list[State] = []  # the states before each step of the order
        # Steps that lead to known states: the state before, the choice, the known state.
        self.merged: list[tuple[State, int, State]] = []
        self.pruned = False  # whether the schedule has come to states that are all known

    def choose(
        self, ready: Effects, positions: Positions, affected_others: bool, claims: Claims = ()
    ) -> int:
        """Return which of the ready processes, given with their effects, takes the next step.

        `affected_others` says that the last step did more to others than its effect says. `claims`
        has the locks of each process, and the row that its next step locks.
        """
        choice = None
        if not self.pruned and len(self.order) < len(self.prefix):
            choice = self._repeat_choice(positions)
        elif not self.pruned:
            state = self._add_state(positions, ready, affected_others, claims)
            choice = self._choose_new(state) if state else None
        self.pruned = choice is None
        if choice is None:
            return next(iter(ready))  # any process: every state from here on is known
        self.order += (choice,)
        return choice

    def finish_schedule(self, ending: Ending, *, affected_others: bool) -> bool:
        """Add the states of the schedule to the graph; return whether its last state is new."""
        last = None
        if not self.pruned:  # in the last state no process is ready
            last = self._add_state(positions=(), ready={}, affected_others=affected_others)
        if last:
            last.ending = ending
        self._keep_states()
        return last is not None

    def advance(self) -> bool:
        """Set the prefix of the next schedule; return False if none is left within the bound."""
        while self.graph.pending:
            preemptions, order, state = heapq.heappop(self.graph.pending)
            choice = order[-1]
            if state.steps.get(choice) != preemptions:
                continue  # the step was taken since, or needs fewer preemptions
            self.counted_preemptions = preemptions - 1  # all steps with fewer have been taken
            if preemptions > self.max_preemptions:
                self.has_reached_bound = True
                return False
            self.graph.tried.clear()  # more may be derived since the last schedule
            try:
                known = self.graph.find_known_after(state, choice)
            except AnotherStepNeeded as needed:  # it runs first, and this step is looked at again
                heapq.heappush(self.graph.pending, (preemptions, order, state))
                self.prefix = (*needed.state.order, needed.process)
                return True
            if known is None:
                self.prefix = order
                return True
            self.graph.link(state, choice, known)  # the step need not run
        return False

    def drop_last_of_prefix(self) -> None:
        """Remove the last step of the prefix from the graph: PostgreSQL ends another victim."""
        choice = self.prefix[-1]
        state_before = self.path[len(self.prefix) - 1]
        del state_before.steps[choice], state_before.ready[choice]

    def describe_covered(self) -> str:
        """Return a sentence on which schedules are certainly counted, or ""."""
        if self.counted_preemptions < 0:  # not even all schedules without preemptions were counted
            return ""
        preemptions = format_preemptions(self.counted_preemptions)
        return f"Every schedule with at most {preemptions} was counted"

    def list_limits(self) -> list[str]:
        """Return which schedules the bound leaves out, if any."""
        if not self.has_reached_bound:
            return []
        return [f"schedules with more than {format_preemptions(self.counted_preemptions)}"]

    def count_endings(self) -> Counter[Ending]:
        """Count the schedules, by how they end."""
        return state_graph.count_endings(self.first_state) if self.first_state else Counter()

    def find_shortest_violation(self) -> str | None:
        order = state_graph.find_shortest_violation(self.first_state) if self.first_state else None
        return None if order is None else write_order(order)

    def add_victims(self, victims: list[int]) -> None:
        """Add the schedules with other victims of the deadlock that the last step has closed."""
        if self.pruned:
            return
        state = self.path[-1]
        for victim in victims:
            choice = make_choice(self.order[-1], victim)
            if choice not in state.ready:
                state.ready[choice] = GLOBAL
                state.steps[choice] = None
                for last, preemptions in state.fewest_preemptions.items():
                    with_step = preemptions + state.is_preemption(last, choice)
                    self.graph.offer_step(state, choice, with_step)

    def _repeat_choice(self, positions: Positions) -> int:
        """Return the next choice of the prefix. Raises NotDeterministic at another state."""
        state = self.path[-1].steps[self.order[-1]] if self.path else self.first_state
        assert isinstance(state, State)
        pairs = zip(state.positions, positions, strict=True)
        for number, (before, now) in enumerate(pairs, start=1):
            # The positions of a derived state do not say which process waits for which.
            expected = before._replace(blockers=now.blockers) if state.waiting else before
            if now == expected:
                continue
            raise NotDeterministic(
                f"In the same schedule, process {number} does not do the same each time: after "
                f"the steps {write_order(self.order)!r} it {_describe_position(before)} the first "
                f"time and {_describe_position(now)} now. Give it fixed keys, clocks and seeds, "
                "and an ORDER BY where it takes the first row, and let setup undo its changes in "
                "Python and in the database. A cache sends its query the first time only: fill it "
                "in setup. The fixture `interleave` fills Django's caches."
            )
        self.path.append(state)
        return self.prefix[len(self.order)]

    def _add_state(
        self, positions: Positions, ready: Effects, affected_others: bool, claims: Claims = ()
    ) -> State | None:
        """Add to the path the state that the last step has led to; return None if it is known."""
        no_events: Trace = ((),) * len(positions)
        state = State(self.order, no_events, positions, ready, claims=claims)
        if not self.path:
            self.path.append(state)
            return state
        before = self.path[-1]
        choice = self.order[-1]
        if affected_others:
            # By its expected effect, the step leads to a new state: so the search chose it. By the
            # effect that it had, the state may be known.
            before.ready[choice] = GLOBAL
            if known := self.graph.find_equivalent(before, choice):
                self.merged.append((before, choice, known))
                return None
        state.share = before.share / len(before.steps)
        if self.graph.reduces:
            state.trace = before.trace_after(choice)
        self.path.append(state)
        return state

    def _choose_new(self, state: State) -> int | None:
        """Return the choice with the fewest preemptions that leads to a new state, or None."""
        last = self.order[-1] if self.order else 0  # no process is 0
        self.graph.tried.clear()  # more may be derived since the last step
        for choice in sorted(state.steps, key=lambda choice: state.is_preemption(last, choice)):
            if self.graph.reduces and state.find_awaited_lock(choice):
                continue  # the state that it leads to is derived later
            known = self.graph.find_known_after(state, choice)
            if known is None:
                return choice
            self.merged.append((state, choice, known))
        return None

    def _keep_states(self) -> None:
        """Add the new states of the path to the graph, and the steps between them."""
        first_new = max(len(self.prefix) - 1, 0)  # the index of the first new step
        states = self.path[first_new:]  # the state before the first new step, and the new ones
        if self.graph.reduces:
            for state in states:
                self.graph.states[state.trace] = state
        if not states[-1].steps:  # all processes have ended
            self.graph.share_done += states[-1].share
        steps = zip(states, self.order[first_new:], states[1:], strict=False)
        # Backwards, so that the preemptions spread to all new states at once.
        for before, choice, after in reversed([*steps, *self.merged]):
            self.graph.link(before, choice, after)
        if self.first_state is None:
            self.first_state = states[0]
            self.graph.spread_preemptions(self.first_state, last=0, preemptions=0)


def format_preemptions(number: int) -> str:
    return "1 preemption" if number == 1 else f"{number} preemptions"


def _describe_position(position: Position) -> str:
    if position == ENDED:
        return "had ended"
    blockers = position.blockers
    waits = f", waiting for {format_processes(blockers)}," if blockers else ""
    return f"was at {format_statement(position.sql, None)!r}{waits}"
