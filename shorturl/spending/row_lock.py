from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db import transaction
from django.db.models import Func

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Lock the counter, look whether one is left, write it back, and create.

    What it does: makes the counter of this period, if there is none, and keeps its row locked
    until the transaction ends, while it compares and increments it in Python. It returns what
    `create` returns, and raises ShortUrl.QuotaExceeded when the quota is used up.

    SQL:
        BEGIN
        INSERT INTO shorturl_spending (spender, period, since, spent) VALUES (…)
        ON CONFLICT DO NOTHING
        SELECT … FROM shorturl_spending WHERE (period = … AND since = (DATE_BIN(…)) AND spender = …)
        LIMIT 21 FOR UPDATE
        UPDATE shorturl_spending SET spent = … WHERE id = …
        … what `create` sends
        COMMIT

    Why nothing can go wrong: only one process at a time holds the row lock, and the next one
    reads the row only after it has been committed. The row is made first, because a lock on a row
    that is not there keeps nobody out. What fails leaves nothing spent: it is rolled back.

    What it costs: five round trips besides those of `create`, during all of which everybody else
    with the same spender queues. A spender's creates happen one after another.

    When to use it: when what may be spent takes Python to decide, such as a tariff with steps.
    """
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    with transaction.atomic():
        unused = Spending(spender=spender, period=period, since=since, spent=0)
        Spending.objects.bulk_create([unused], ignore_conflicts=True)
        counters = Spending.objects.select_for_update()
        counter = counters.get(spender=spender, period=period, since=since)
        if counter.spent + amount > limit:
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        counter.spent += amount
        counter.save(update_fields=["spent"])
        return create()
