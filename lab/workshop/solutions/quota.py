"""The limit is a condition of the statement that spends, in the transaction of the create."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db import transaction
from django.db.models import F, Func

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    with transaction.atomic():
        unused = Spending(spender=spender, period=period, since=since, spent=0)
        Spending.objects.bulk_create([unused], ignore_conflicts=True)
        counter = Spending.objects.filter(spender=spender, period=period, since=since)
        if not counter.filter(spent__lte=limit - amount).update(spent=F("spent") + amount):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()
