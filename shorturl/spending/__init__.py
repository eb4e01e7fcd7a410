"""Every way to spend a quota on a create: the safe ones and the exhibits.

Each is a function `spend(spender, create, *, limit, period, amount)` in a file of its own. It calls
`create` and returns what that returns, or raises ShortUrl.QuotaExceeded when `spender` would so
have spent more than `limit` in this period. quotas.spend() is what an application calls.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, TypeVar

from shorturl.spending import (
    conditional_update,
    count_then_insert,
    f_expression,
    read_modify_write,
    reservation,
    row_lock,
)
from shorturl.strategies import Strategy, Verdict, table

RIGHT, WRONG = Verdict.RIGHT, Verdict.WRONG
T = TypeVar("T")


class Spend(Protocol):
    """The signature of every way to spend."""

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
        "count what was made, then make one more: time of check to time of use"),
    Strategy("read_modify_write", read_modify_write.spend, WRONG, "–",
        "read the counter, compare, add one, write: the lost update"),
    Strategy("f_expression", f_expression.spend, WRONG, "–",
        "counts right, and looks at the limit before"),
    Strategy("conditional_update", conditional_update.spend, RIGHT, "–",
        "an upsert with the limit as its condition, taken back when the create fails"),
    Strategy("row_lock", row_lock.spend, RIGHT, "–",
        "a row lock from the look until the link is made"),
    Strategy("reservation", reservation.spend, RIGHT, "–",
        "the same upsert in the transaction of the create: what fails is given back",
        several=True),
)
