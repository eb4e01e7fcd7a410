"""A row of the tables of strategies."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Verdict(Enum):
    """Whether a strategy is correct when several processes run it at once."""

    RIGHT = "right"
    WRONG = "wrong"
    RIGHT_WITHOUT_CONDITION = "safe only for links without limit and expiry"
    RIGHT_ALONE = "safe only outside of a transaction"


RIGHT, WRONG = Verdict.RIGHT, Verdict.WRONG


@dataclass(frozen=True)
class Strategy(Generic[F]):
    """One way to write an operation.

    `step` is the strategy's place in the article's take-away, or "–" where the article has none.
    `note` is shown beside its explorations.
    """

    name: str
    function: F
    verdict: Verdict
    step: str
    shows: str
    note: str = ""


def table(*strategies: Strategy[F]) -> dict[str, Strategy[F]]:
    """Return the strategies by name, in the order given."""
    return {strategy.name: strategy for strategy in strategies}
