"""A sample of the schedules, if there are too many to run all of them. It does no I/O.

Every second schedule is a random walk: a random process of those that can go on takes each step. In
the other schedules each process has a random priority, and the process with the highest priority
takes the step. At a few random steps, that process gets the lowest priority. This is PCT
(Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS
2010): with n processes and k steps, one such schedule finds a violation that d - 1 preemptions make
possible with a probability of at least 1 / (n * k ** (d - 1)), however many schedules there are.
"""

import itertools
import math
import random

from pginterleave.searching.equivalent_orders import Order
from pginterleave.searching.state_graph import Ending, Positions
from pginterleave.sql.dependent_steps import Claims, Effect

MAX_CHANGES = 3  # of priorities in one schedule


class Sampler:
    """Chooses random schedules, with the interface of a Search; the seed decides which."""

    prefix: Order = ()  # a sample plans no step beforehand

    def __init__(self, processes: int, *, schedules: int, seed: int | None) -> None:
        self.processes, self.schedules = processes, schedules
        self.seed = random.randrange(2**32) if seed is None else seed  # noqa: S311 - no secret
        self.number = 0  # of the schedule
        self.longest = processes  # steps of the longest schedule so far
        self.orders: set[str] = set()
        self.violating: dict[str, int] = {}
        self.branchings: list[float] = []  # by random walk: the product of its numbers of choices
        self.rewind()

    def add_victims(self, victims: list[int]) -> None:
        """Ignore the other victims of a deadlock: a sample proves nothing."""

    def drop(self) -> None:
        """Do nothing: a sample plans no victim."""

    def rewind(self) -> None:
        self.random = random.Random(f"{self.seed} {self.number}")  # noqa: S311 - no secret
        self.order = ""
        self.branching = 1.0
        self.priorities = list(range(1, self.processes + 1))
        self.changes: set[int] = set()
        if self.number % 2:
            self.random.shuffle(self.priorities)
            changes = self.random.randint(0, MAX_CHANGES)
            self.changes = {self.random.randrange(self.longest) for _ in range(changes)}

    def choose(
        self,
        ready: dict[int, Effect],
        positions: Positions,
        affected_others: bool,
        claims: Claims = (),
    ) -> int:
        self.branching *= len(ready)
        if not self.number % 2:
            number = self.random.choice(sorted(ready))
        else:
            number = next(each for each in self.priorities if each in ready)
            if len(self.order) in self.changes:
                self.priorities.remove(number)
                self.priorities.append(number)
                number = next(each for each in self.priorities if each in ready)
        self.order += str(number)
        return number

    def count(self, *, violates: int, affected_others: bool) -> bool:
        new = self.order not in self.orders
        self.orders.add(self.order)
        if violates:
            self.violating[self.order] = violates
        if not self.number % 2:
            self.branchings.append(self.branching)
        self.longest = max(self.longest, len(self.order))
        self.number += 1
        return new

    def advance(self) -> bool:
        return self.number < self.schedules

    def counted(self) -> tuple[int, int]:
        """Return how many different schedules have run, and how many of them are violating."""
        return len(self.orders), len(self.violating)

    def raising(self) -> int:
        return sum(each == Ending.RAISED for each in self.violating.values())

    def share(self) -> float:
        return self.number / self.schedules

    def shortest_violation(self) -> str | None:
        return min(self.violating, key=simplicity, default=None)

    def left_out(self) -> str:
        return f"sample={self.schedules} taken with seed={self.seed}"

    def covered(self) -> str:
        # The mean of the products is an unbiased estimate of the number of schedules (Knuth 1975).
        mean = math.fsum(self.branchings) / len(self.branchings)
        estimate = float(f"{max(mean, len(self.orders)):.2g}")
        return (
            f"The sample with seed={self.seed} holds {len(self.orders)} different schedules of "
            f"about {estimate:,.0f}, and proves nothing"
        )


def switches(order: str) -> int:
    """Return how often another process takes the next step."""
    return sum(first != second for first, second in itertools.pairwise(order))


def simplicity(order: str) -> tuple[int, int, str]:
    """Return a key to sort orders by: the shortest first, then the fewest switches."""
    return len(order), switches(order), order
