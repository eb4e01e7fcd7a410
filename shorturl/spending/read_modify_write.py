from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db.models import Func

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Read the counter, look whether one is left, write it back with one more.

    What it does: fetches the counter of this period, or begins one, compares and increments it in
    Python, saves it, and creates. It returns what `create` returns, and raises
    ShortUrl.QuotaExceeded when the quota is used up, and IntegrityError when somebody was faster to
    begin a counter.

    SQL:
        SELECT … FROM shorturl_spending WHERE (period = … AND since = (DATE_BIN(…)) AND spender = …)
        ORDER BY id ASC LIMIT 1
        UPDATE shorturl_spending SET spender = …, spent = … WHERE id = …
        … INSERT INTO shorturl_spending … instead, when there is none
        … what `create` sends

    What goes wrong: the lost update. Two read the same number, both find one left, both write the
    same sum: two links, counted once, so that even later ones are let through. And when `create`
    fails, what it was to cost stays spent.

    What it costs: two statements, and the links beyond the quota.

    When to use it: never.
    """
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    current = {"spender": spender, "period": period, "since": since}
    counter = Spending.objects.filter(**current).first() or Spending(**current, spent=0)
    if counter.spent + amount > limit:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    counter.spent += amount
    counter.save()
    return create()
