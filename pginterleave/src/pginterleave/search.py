"""Depth-first search over all schedules, with partial-order reduction. It does no I/O."""

from dataclasses import dataclass
from typing import Any

from pginterleave.effects import GLOBAL, Effect, dependent
from pginterleave.explorer_errors import NotDeterministic
from pginterleave.formatting import process_names

Position = tuple[Any, ...]  # kind and SQL of the next step, and whom it waits for; () at the end
Positions = tuple[Position, ...]  # of each process
Event = tuple[str, str, Effect, tuple[int, ...]]  # kind, SQL, effect, how many it depends on
Trace = tuple[tuple[Event, ...], ...]  # the events of each process: the same for equivalent orders


@dataclass
class BranchPoint:
    """A state of a schedule: the position of each process, who was chosen, who remains."""

    positions: Positions
    ready: dict[int, Effect]
    chosen: int
    remaining: list[int]
    trace: Trace
    schedules: int = 0  # how many of those that begin like this are counted already
    violating: int = 0

    def after(self, number: int) -> Trace:
        """Return the trace when that process has taken the next step.

        Two orders have the same trace when they differ only in the order of adjacent independent
        steps. They lead to the same state, and what follows is the same.
        """
        kind, sql, *_ = self.positions[number - 1]
        effect = self.ready[number]
        before = tuple(sum(dependent(effect, event[2]) for event in each) for each in self.trace)
        own = (*self.trace[number - 1], (kind, sql, effect, before))
        return (*self.trace[: number - 1], own, *self.trace[number:])


class Search:
    """Depth-first search over the choices of which process takes the next step."""

    def __init__(self, processes: int, reduce: bool) -> None:
        self.path: list[BranchPoint] = []
        self.known = 0  # how many steps of the path have been run before
        self.depth = 0
        self.reduce = reduce
        self.start: Trace = ((),) * processes
        # Behind a trace that was searched: the number of schedules, and of the violating ones.
        self.searched: dict[Trace, tuple[int, int]] = {}
        self.total = (0, 0)
        self.pruned = False  # all that this schedule can lead to is counted already

    def rewind(self) -> None:
        """Begin a schedule, possibly one that was begun before."""
        self.depth, self.pruned = 0, False
        del self.path[self.known :]

    def choose(self, ready: dict[int, Effect], positions: Positions, affected_others: bool) -> int:
        """Return which of the ready processes, given with their effects, takes the next step.

        `affected_others` says that the last step did more than its effect says.
        """
        if self.pruned:
            return next(iter(ready))
        self._correct_last_effect(affected_others)
        if self.depth == len(self.path):
            before = self.path[-1] if self.path else None
            trace = before.after(before.chosen) if before and self.reduce else self.start
            self.path.append(BranchPoint(positions, ready, 0, list(ready), trace))
            self.pruned = not self._choose_next(self.path[-1])
            if self.pruned:
                return next(iter(ready))
        branch = self.path[self.depth]
        if branch.positions != positions:
            raise NotDeterministic(self._difference(branch.positions, positions))
        self.depth += 1
        return branch.chosen

    def _difference(self, before: Positions, now: Positions) -> str:
        order = "".join(str(each.chosen) for each in self.path[: self.depth])
        pairs = enumerate(zip(before, now, strict=True), start=1)
        number = next(number for number, (first, second) in pairs if first != second)
        return (
            f"After the same steps {order!r}, process {number} {_describe(before[number - 1])} "
            f"the first time and {_describe(now[number - 1])} now. A process has to do the same "
            "whenever the same schedule is run: give it fixed keys, clocks and seeds, and an "
            "ORDER BY where it takes the first row, and let setup undo what it leaves in Python "
            "and in the database."
        )

    def _choose_next(self, branch: BranchPoint) -> bool:
        """Choose the next process that leads to a new state; count what the others lead to."""
        while branch.remaining:
            branch.chosen = branch.remaining.pop(0)
            counted = self.searched.get(branch.after(branch.chosen)) if self.reduce else None
            if counted is None:
                return True
            branch.schedules += counted[0]
            branch.violating += counted[1]
        return False

    def _correct_last_effect(self, affected_others: bool) -> None:
        if affected_others and self.depth:
            branch = self.path[self.depth - 1]
            branch.ready[branch.chosen] = GLOBAL

    def count(self, *, violates: bool, affected_others: bool) -> bool:
        """Count the schedule that has run; return False when it was counted before."""
        if self.pruned:
            return False
        self._correct_last_effect(affected_others)
        if not self.path:  # nobody took a step
            self.total = (1, int(violates))
            return True
        last = self.path[-1]
        last.schedules, last.violating = last.schedules + 1, last.violating + violates
        if self.reduce:
            self.searched[last.after(last.chosen)] = (1, int(violates))
        return True

    def counted(self) -> tuple[int, int]:
        """Return how many schedules were counted, and how many of them are violating."""
        return (
            self.total[0] + sum(branch.schedules for branch in self.path),
            self.total[1] + sum(branch.violating for branch in self.path),
        )

    def advance(self) -> bool:
        """Go to the next schedule in lexicographic order; False when there is none."""
        while self.path and not self._choose_next(self.path[-1]):
            branch = self.path.pop()
            if self.reduce:
                self.searched[branch.trace] = (branch.schedules, branch.violating)
            if self.path:
                self.path[-1].schedules += branch.schedules
                self.path[-1].violating += branch.violating
            else:
                self.total = (branch.schedules, branch.violating)
        self.known = len(self.path)
        return bool(self.path)

    def share(self) -> float:
        """Estimate which share of the search is done, from 0 to 1."""
        share, whole = 0.0, 1.0
        for branch in self.path:
            whole /= len(branch.ready)
            share += whole * (len(branch.ready) - len(branch.remaining) - 1)
        return share + whole


def _describe(position: Position) -> str:
    if not position:
        return "had ended"
    _, sql, *blockers = position
    return f"was at {sql!r}" + (f", waiting for {process_names(blockers)}," if blockers else "")
