"""Write a spend that holds: nobody makes more links than their quota has left.

It calls `create` and returns what that returns, if `spender` may spend `amount` more in this
period, and else raises ShortUrl.QuotaExceeded, as below. `since` is when the period began, for
PostgreSQL to compute. What a create that fails was to cost has to be there for the next one.

As it stands nothing that is spent is lost, and more is spent than there is. Who else has looked?

Three races judge it: two that create when one is left, two in a period that has just begun and has
no counter yet, and one whose first create fails.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db.models import F, Func

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    counter = Spending.objects.filter(spender=spender, period=period, since=since).first()
    if counter is None:
        counter = Spending.objects.create(spender=spender, period=period, since=since, spent=0)
    if counter.spent + amount > limit:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    counter.spent = F("spent") + amount
    counter.save(update_fields=["spent"])
    return create()
