"""The search over all schedules: chooses the next one. It does no I/O.

Schedules with the fewest preemptions come first, as most races need one or two. A *preemption* is a
step of another process while the process of the last step could go on. With partial-order
reduction, the steps after a state are explored once, in whatever order independent steps led there.
"""

import heapq

from pginterleave.choices import Order, Position, Positions, with_victim, write_order
from pginterleave.explorer_errors import NotDeterministic
from pginterleave.formatting import process_names
from pginterleave.searching import state_graph
from pginterleave.searching.known_states import KnownStates
from pginterleave.searching.state_graph import Needed, State, Trace
from pginterleave.sql.dependent_steps import GLOBAL, Claims, Effect, waits_for


class Search:
    """The choices of which process takes the next step, those with the fewest preemptions first.

    `reduces` merges the states of equivalent orders.
    """

    def __init__(self, processes: int, *, reduces: bool = False) -> None:
        self.graph = KnownStates(reduces=reduces)
        self.first: State | None = None
        self.start: Trace = ((),) * processes
        self.prefix: Order = ()  # the choices that the schedule begins with
        self.certain = -1  # every schedule with at most so many preemptions is counted
        self.rewind()

    def rewind(self) -> None:
        """Begin a schedule, or begin it again."""
        self.order: Order = ()
        self.path: list[State] = []  # the states before each step of the order
        self.merged: list[tuple[State, int, State]] = []  # steps that lead to known states
        self.pruned = False  # whether every state that can follow is known

    def choose(
        self,
        ready: dict[int, Effect],
        positions: Positions,
        affected_others: bool,
        claims: Claims = (),
    ) -> int:
        """Return which of the ready processes, given with their effects, takes the next step.

        `affected_others` says that the last step did more than its effect. `claims` has the locked
        and the wanted rows of each process.
        """
        number = 0
        if not self.pruned and len(self.order) < len(self.prefix):
            number = self._take_again(positions)
        elif not self.pruned:
            state = self._reach(positions, ready, affected_others, claims)
            number = self._find_nearest(state) if state else 0
        if number:
            self.order += (number,)
        self.pruned = not number
        return number or next(iter(ready))

    def count(self, *, violates: int, affected_others: bool) -> bool:
        """Keep the states of the schedule that has run; return whether its last state is new."""
        end = None if self.pruned else self._reach((), {}, affected_others)
        if end:
            end.violates = violates
        self._keep()
        return bool(end)

    def advance(self) -> bool:
        """Go to the next schedule; return False if there is none."""
        while self.graph.pending:
            preemptions, order, state = heapq.heappop(self.graph.pending)
            number = order[-1]
            if state.steps.get(number) != preemptions:
                continue  # it was taken since, or needs fewer preemptions
            self.certain = preemptions - 1
            self.graph.deriving.clear()
            try:
                known = self.graph.find(state, number)
            except Needed as needed:
                heapq.heappush(self.graph.pending, (preemptions, order, state))
                self.prefix = (*needed.state.order, needed.number)
                return True
            if known is None:
                self.prefix = order
                return True
            self.graph.link(state, number, known)
        return False

    def drop(self) -> None:
        """Leave out the step that the present schedule begins with: it is not possible."""
        state: State | int | None = self.first
        for number in self.prefix[:-1]:
            assert isinstance(state, State)
            state = state.steps[number]
        assert isinstance(state, State)
        del state.steps[self.prefix[-1]], state.ready[self.prefix[-1]]

    def covered(self) -> str:
        """Return a sentence on which schedules are certainly counted, or ""."""
        preemptions = "1 preemption" if self.certain == 1 else f"{self.certain} preemptions"
        return f"Every schedule with at most {preemptions} was counted" if self.certain >= 0 else ""

    def counted(self) -> tuple[int, int, int]:
        """Return the numbers of all schedules, of violating ones, and of those that raise."""
        return state_graph.count(self.first) if self.first else (0, 0, 0)

    def shortest_violation(self) -> str | None:
        order = state_graph.shortest_violation(self.first) if self.first else None
        return None if order is None else write_order(order)

    def share(self) -> float:
        return min(self.graph.done, 1.0)

    def add_victims(self, victims: list[int]) -> None:
        """Add the schedules with other victims of the deadlock that the last step has closed."""
        if self.pruned:
            return
        state = self.path[-1]
        for victim in victims:
            choice = with_victim(self.order[-1], victim)
            if choice not in state.ready:
                state.ready[choice] = GLOBAL
                state.steps[choice] = None
                for last, preemptions in state.fewest.items():
                    self.graph.offer(state, choice, preemptions + state.preempts(last, choice))

    def _take_again(self, positions: Positions) -> int:
        state = self.path[-1].steps[self.order[-1]] if self.path else self.first
        assert isinstance(state, State)
        # The positions of a derived state do not say which process waits for which.
        compared = 2 if state.waiting else None
        for number, before in enumerate(state.positions, start=1):
            now = positions[number - 1]
            if before[:compared] == now[:compared]:
                continue
            raise NotDeterministic(
                f"After the same steps {write_order(self.order)!r}, process {number} "
                f"{_describe(before)} the first time and {_describe(now)} now. "
                "In the same schedule a process has to do the same each time: give it fixed "
                "keys, clocks and seeds, and an ORDER BY where it takes the first row, and let "
                "setup undo its changes in Python and in the database. A cache sends its query the "
                "first time only: fill it in setup. The fixture `interleave` fills Django's caches."
            )
        self.path.append(state)
        return self.prefix[len(self.order)]

    def _reach(
        self,
        positions: Positions,
        ready: dict[int, Effect],
        affected_others: bool,
        claims: Claims = (),
    ) -> State | None:
        """Return the new state that a step has led to; None if it is known."""
        steps = dict.fromkeys(ready)
        state = State(self.order, self.start, positions, ready, claims=claims, steps=steps)
        if self.path:
            before = self.path[-1]
            number = self.order[-1]
            state.share = before.share / len(before.steps)
            if affected_others:  # otherwise it is new, or the step would not have been chosen
                before.ready[number] = GLOBAL
                if known := self.graph.find_equal(before, number):
                    self.merged.append((before, number, known))
                    return None
            if self.graph.reduces:
                state.trace = before.trace_after(number)
        self.path.append(state)
        return state

    def _find_nearest(self, state: State) -> int:
        """Return the choice with the fewest preemptions that leads to a new state, or 0."""
        last = self.order[-1] if self.order else 0
        self.graph.deriving.clear()
        for number in sorted(state.steps, key=lambda choice: state.preempts(last, choice)):
            if self.graph.reduces and waits_for(state.claims, number):
                continue  # the state that it leads to is derived later
            known = self.graph.find(state, number)
            if known is None:
                return number
            self.merged.append((state, number, known))
        return 0

    def _keep(self) -> None:
        new = max(len(self.prefix) - 1, 0)  # the place of the first new step
        path = self.path[new:]
        if self.graph.reduces:
            for state in path:
                self.graph.states[state.trace] = state
        if not path[-1].steps:
            self.graph.done += path[-1].share
        taken = zip(path, self.order[new:], path[1:], strict=False)
        for before, number, known in reversed([*taken, *self.merged]):
            self.graph.link(before, number, known)
        if self.first is None:
            self.first = path[0]
            self.graph.spread(self.first, 0, 0)


def _describe(position: Position) -> str:
    if not position:
        return "had ended"
    _, sql, *blockers = position
    return f"was at {sql!r}" + (f", waiting for {process_names(blockers)}," if blockers else "")
