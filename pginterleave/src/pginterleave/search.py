"""The search over all schedules: which one is next. It does no I/O.

Those with the fewest preemptions come first: a search that a limit ends early has then seen all
schedules with few of them, and most races need one or two. A *preemption* is a step of another
process while the one that took the last step could go on.

With partial-order reduction, orders that differ only in independent steps lead to one state, and
what follows it is explored once.
"""

import heapq
import math
from collections.abc import Iterable, Iterator

from pginterleave import states
from pginterleave.choices import char, choice_of, process_of, with_victim, written
from pginterleave.effects import GLOBAL, Effect
from pginterleave.explorer_errors import CannotExplore, NotDeterministic
from pginterleave.formatting import process_names
from pginterleave.states import Position, Positions, State, Trace


class Search:
    """The choices of which process takes the next step, those with the fewest preemptions first.

    `reduce` merges the states of equivalent orders. Schedules with more preemptions than `bound`
    are left out. The processes of each set in `alike` can be exchanged: of the schedules that are
    the same but for an exchange, the one runs in which they begin in the order of their numbers.
    """

    def __init__(
        self,
        processes: int,
        *,
        reduce: bool = False,
        bound: int | None = None,
        alike: Iterable[tuple[int, ...]] = (),
    ) -> None:
        self.reduce, self.bound = reduce, bound
        self.alike = {number: each for each in alike for number in each}
        self.states: dict[Trace, State] = {}  # those that equivalent orders lead to, too
        self.first: State | None = None
        self.start: Trace = ((),) * processes
        self.pending: list[tuple[int, str, State]] = []  # by preemptions: steps nobody has taken
        self.prefix, self.preemptions = "", 0  # what the schedule begins with, and those in it
        self.certain = -1  # all schedules with so many preemptions, or fewer, are counted
        self.done = 0.0  # the share of the search
        self.rewind()

    @property
    def known(self) -> int:
        """With how many steps the schedule begins; the last of them is new."""
        return len(self.prefix)

    def rewind(self) -> None:
        """Begin a schedule, possibly one that was begun before."""
        self.order = ""
        self.path: list[State] = []  # what the order leads through
        self.merged: list[tuple[State, int, State]] = []  # steps that lead to known states
        self.used = self.preemptions  # preemptions so far
        self.pruned = False  # all that this schedule can lead to is known

    def choose(self, ready: dict[int, Effect], positions: Positions, affected_others: bool) -> int:
        """Return which of the ready processes, given with their effects, takes the next step.

        `affected_others` says that the last step did more than its effect says.
        """
        if self.pruned:
            return next(iter(ready))
        if len(self.order) < len(self.prefix):
            number = self._take_again(positions)
        else:
            number = self._nearest(self._reach(positions, ready, affected_others))
        if not number:
            self.pruned = True
            return next(iter(ready))
        self.order += char(number)
        return number

    def count(self, *, violates: bool, affected_others: bool) -> bool:
        """Keep what the schedule that has run has led to; return whether its end is new."""
        new = False
        if not self.pruned:
            end = self._reach((), {}, affected_others)
            new = not end.fewest
            end.violates = violates
        self._keep()
        return new

    def advance(self) -> bool:
        """Go to the next schedule; False when there is none."""
        while self.pending and (self.bound is None or self.pending[0][0] <= self.bound):
            preemptions, order, state = heapq.heappop(self.pending)
            number = choice_of(order[-1])
            if state.steps[number] != preemptions:
                continue  # it was taken since, or needs fewer
            self.certain = preemptions - 1
            known = self.states.get(state.after(number)) if self.reduce else None
            if known is None:
                self.prefix, self.preemptions = order, preemptions
                return True
            self._link(state, number, known)
        self.certain = self.bound or 0
        return False

    def left_out(self) -> str:
        """Return why a search that has ended has not run all schedules, or ""."""
        left = any(state.steps[choice_of(order[-1])] == each for each, order, state in self.pending)
        return f"preemption_bound={self.bound} reached" if left else ""

    def covered(self) -> str:
        """Return which of the schedules are counted for certain, in a sentence, or ""."""
        preemptions = "1 preemption" if self.certain == 1 else f"{self.certain} preemptions"
        return f"Every schedule with at most {preemptions} was counted" if self.certain >= 0 else ""

    def counted(self) -> tuple[int, int]:
        """Return how many schedules were counted, and how many of them are violating."""
        if self.first is None:
            return 0, 0
        sets = {each for number, each in self.alike.items() if number in self.first.ready}
        exchanges = math.prod(math.factorial(len(each)) for each in sets)
        schedules, violating = states.count(self.first, self.bound)
        return schedules * exchanges, violating * exchanges

    def shortest_violation(self) -> str | None:
        """Return the shortest order that violates the invariant, with the fewest switches."""
        order = states.shortest_violation(self.first) if self.first else None
        return None if order is None else written(map(choice_of, order))

    def share(self) -> float:
        """Estimate which share of the search is done, from 0 to 1."""
        return min(self.done, 1.0)

    def planned(self) -> list[int]:
        """Return the choices that the schedule begins with."""
        return [choice_of(each) for each in self.prefix]

    def add_victims(self, victims: list[int]) -> None:
        """Explore the other ends of the deadlock that the last step has closed."""
        if self.pruned:
            return
        state, process = self.path[-1], choice_of(self.order[-1])
        for victim in victims:
            choice = with_victim(process, victim)
            if choice not in state.ready:
                state.ready[choice] = GLOBAL
                state.steps[choice] = None
                for last, preemptions in state.fewest.items():
                    self._offer(state, choice, preemptions + state.preempts(last, choice))

    def _take_again(self, positions: Positions) -> int:
        state = self.path[-1].steps[choice_of(self.order[-1])] if self.path else self.first
        assert isinstance(state, State)
        if state.positions != positions:
            raise NotDeterministic(_difference(self.order, state.positions, positions))
        self.path.append(state)
        return choice_of(self.prefix[len(self.order)])

    def _reach(
        self, positions: Positions, ready: dict[int, Effect], affected_others: bool
    ) -> State:
        """Return the state that a new step has led to: a new one, or one that is known."""
        state = State(self.order, self.start, positions, ready)
        if self.path:
            before, number = self.path[-1], choice_of(self.order[-1])
            if affected_others:
                before.ready[number] = GLOBAL
            state.share = before.share / len(before.steps)
            if self.reduce:
                state.trace = before.after(number)
                state = self.states.get(state.trace, state)
        elif ready:
            self._check_alike(positions)
        if not state.fewest:
            state.steps = dict.fromkeys(self._may_go_on(state))
        self.path.append(state)
        return state

    def _may_go_on(self, state: State) -> Iterator[int]:
        """Leave out who would begin before a process that is alike and has a lower number."""
        begun = {process_of(choice_of(each)) for each in state.order}
        for number in state.ready:
            lower = {each for each in self.alike.get(number, ()) if each < number}
            if number in begun or lower <= begun:
                yield number

    def _nearest(self, state: State) -> int:
        """Return who goes on with the fewest preemptions, to a state that is new; or 0."""
        if state.fewest:
            return 0
        last = choice_of(self.order[-1]) if self.order else 0
        for number in sorted(state.steps, key=lambda each: state.preempts(last, each)):
            known = self.states.get(state.after(number)) if self.reduce else None
            if known is None:
                self.used += state.preempts(last, number)
                return number if self.bound is None or self.used <= self.bound else 0
            self.merged.append((state, number, known))
        return 0

    def _keep(self) -> None:
        """Make known what the schedule has led to."""
        new = max(len(self.prefix) - 1, 0)  # where its first new step begins
        path = self.path[new:]
        if self.reduce:
            self.states.update((state.trace, state) for state in path)
        if not path[-1].steps and not path[-1].fewest:
            self.done += path[-1].share
        taken = zip(path, map(choice_of, self.order[new:]), path[1:], strict=False)
        for before, number, after in reversed([*taken, *self.merged]):
            self._link(before, number, after)
        if self.first is None:
            self.first = path[0]
            self._spread(self.first, 0, 0)

    def _link(self, before: State, number: int, after: State) -> None:
        """Note that the step of a process leads to a state."""
        if after.fewest:
            self.done += before.share / len(before.steps)
        before.steps[number] = after
        for last, preemptions in before.fewest.items():
            self._spread(after, number, preemptions + before.preempts(last, number))

    def _spread(self, state: State, last: int, preemptions: int) -> None:
        """Note how few preemptions lead to a state, and from there to all that follow it."""
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
                    self._offer(state, number, fewest)

    def _offer(self, state: State, number: int, preemptions: int) -> None:
        """Note that a schedule with so many preemptions could take a step that none has taken."""
        known = state.steps[number]
        if known is None or (isinstance(known, int) and preemptions < known):
            state.steps[number] = preemptions
            heapq.heappush(self.pending, (preemptions, state.order + char(number), state))

    def _check_alike(self, positions: Positions) -> None:
        for number, each in self.alike.items():
            if positions[number - 1] != positions[each[0] - 1]:
                raise CannotExplore(
                    f"The processes are not symmetric: process {each[0]} "
                    f"{_describe(positions[each[0] - 1])} at the beginning, and process {number} "
                    f"{_describe(positions[number - 1])}."
                )


def _difference(order: str, before: Positions, now: Positions) -> str:
    pairs = enumerate(zip(before, now, strict=True), start=1)
    number = next(number for number, (first, second) in pairs if first != second)
    taken = written(map(choice_of, order))
    return (
        f"After the same steps {taken!r}, process {number} {_describe(before[number - 1])} "
        f"the first time and {_describe(now[number - 1])} now. A process has to do the same "
        "whenever the same schedule is run: give it fixed keys, clocks and seeds, and an "
        "ORDER BY where it takes the first row, and let setup undo what it leaves in Python "
        "and in the database."
    )


def _describe(position: Position) -> str:
    if not position:
        return "had ended"
    _, sql, *blockers = position
    return f"was at {sql!r}" + (f", waiting for {process_names(blockers)}," if blockers else "")
