"""The strategies of spending, right and wrong, in the order that tables show them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, TypeVar

from shorturl.strategies.spending import (
    conditional_update,
    count_then_insert,
    f_expression,
    read_modify_write,
    reservation,
    row_lock,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, table

T = TypeVar("T")


class Spend(Protocol):
    def __call__(
        self,
        spender: str,
        create: Callable[[], T],
        *,
        limit: int,
        period: timedelta,
        amount: int = 1,
    ) -> T: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Spend]] = table(
    Strategy("count_then_insert", count_then_insert.spend, WRONG, "–",
        "count the creates, then create: time of check to time of use"),
    Strategy("read_modify_write", read_modify_write.spend, WRONG, "–",
        "read the counter, compare, add one, write: the lost update"),
    Strategy("f_expression", f_expression.spend, WRONG, "–",
        "counts right, and checks the limit before"),
    Strategy("conditional_update", conditional_update.spend, RIGHT, "–",
        "an upsert with the limit as its condition, undone when the create fails"),
    Strategy("row_lock", row_lock.spend, RIGHT, "–",
        "a row lock from the check until the create"),
    Strategy("reservation", reservation.spend, RIGHT, "–",
        "the same upsert in the transaction of the create: a failure rolls both back"),
)
