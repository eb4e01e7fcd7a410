"""A row of the tables of strategies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from django.db.backends.utils import CursorWrapper

F = TypeVar("F", bound=Callable[..., Any])
Counted = tuple[int, str, str, int]  # id, key, target_url, hits; after the last counted hit


class Verdict(Enum):
    """Whether a strategy is correct when several processes run it at once."""

    RIGHT = "right"
    WRONG = "wrong"
    RIGHT_WITHOUT_CONDITION = "right without a condition"
    RIGHT_ALONE = "right alone, wrong inside a transaction"


RIGHT, WRONG = Verdict.RIGHT, Verdict.WRONG


@dataclass(frozen=True)
class Strategy(Generic[F]):
    """One way to write an operation.

    `step` is the strategy's place in the article's take-away, or "–" where the article has none.
    `draws_keys` says whether a create tries the candidate keys that its caller passes. `nests` says
    whether the strategy can run inside a caller's atomic(). `count_one` counts several hits of one
    key at once, and `count` hits of several keys; both use a cursor of the caller's. `note` is
    shown beside its explorations.
    """

    name: str
    function: F
    verdict: Verdict
    step: str
    shows: str
    draws_keys: bool = True
    nests: bool = True
    count_one: Callable[[str, Any, CursorWrapper], Counted | None] | None = None
    count: Callable[[Any, CursorWrapper], dict[str, Counted]] | None = None
    note: str = ""


def table(*strategies: Strategy[F]) -> dict[str, Strategy[F]]:
    """Return the strategies by name, in the order given."""
    return {strategy.name: strategy for strategy in strategies}
