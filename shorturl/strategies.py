"""What the tables of strategies, the STRATEGIES of each operation's folder, are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Verdict(Enum):
    """Whether a strategy is correct when several processes run it at once."""

    RIGHT = "right"
    WRONG = "wrong"
    RIGHT_WITHOUT_CONDITION = "right without a condition"
    RIGHT_ALONE = "right alone, wrong inside a transaction"


@dataclass(frozen=True)
class Strategy(Generic[F]):
    """One way to write an operation.

    `step` is its place in the article's take-away, or "–" where the project goes past it.
    `keeps_transaction` says whether a caller's atomic() can go on after the strategy has met a
    collision or a competitor; where it is False, PostgreSQL refuses every later statement.
    `draws_keys` says whether a create tries the candidate keys that it is handed, and `nests`
    whether the strategy can be called inside a caller's atomic() at all. `several` says whether one
    call can spend several quotas. `shared` makes what the threads of a process share, where a
    strategy has such a thing and takes it as an argument. `together` counts several hits of
    one caller in one statement, where a strategy can, and returns what the function returns or
    raises for each.
    `note` is what a reader of its explorations has to know.
    """

    name: str
    function: F
    verdict: Verdict
    step: str
    shows: str
    keeps_transaction: bool = True
    draws_keys: bool = True
    nests: bool = True
    several: bool = False
    shared: Callable[[], object] | None = None
    together: Callable[..., list[Any]] | None = None
    note: str = ""

    def of_another_process(self) -> Callable[..., Any]:
        """Return the function as another process has it: it shares nothing with any thread here.

        For explorations, whose processes are threads.
        """
        return partial(self.function, shared=self.shared()) if self.shared else self.function


def table(*strategies: Strategy[F]) -> dict[str, Strategy[F]]:
    """Return the strategies by name, in the order given."""
    return {strategy.name: strategy for strategy in strategies}
