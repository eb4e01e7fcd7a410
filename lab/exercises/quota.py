"""Write a correct `spend`: `pytest lab/exercises/tests/quota.py` tests it.

If `spender` may spend `amount` more in this period, `spend` calls `create` and returns its result.
Otherwise it raises QuotaExceeded, as below, and does not call `create`. The clock of
PostgreSQL decides in which period the call is: `since` is the start of that period. A create that
fails must not use up any of the quota, and what `create` raises, `spend` raises.

Calls at once end as calls one after another do. It also works in a caller's transaction, or
refuses it as atomic(durable=True) does.

The function below can spend more than the limit. Which other process has read the same counter?
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db.models import F, Func

from shorturl.exceptions import QuotaExceeded
from shorturl.models import QuotaUsage

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    since: Any = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    counter = QuotaUsage.objects.filter(spender=spender, period=period, since=since).first()
    if counter is None:
        counter = QuotaUsage.objects.create(spender=spender, period=period, since=since, spent=0)
    if counter.spent + amount > limit:
        raise QuotaExceeded(spender, limit=limit, period=period)
    QuotaUsage.objects.filter(pk=counter.pk).update(spent=F("spent") + amount)
    return create()
