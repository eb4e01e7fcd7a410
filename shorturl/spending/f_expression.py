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
    """Look whether one is left, and let the database add one.

    What it does: fetches the counter of this period, or makes it, compares it in Python, increments
    it relative to what the row holds by then, and creates. It returns what `create` returns, and
    raises ShortUrl.QuotaExceeded when the quota is used up.

    SQL:
        SELECT … FROM shorturl_spending WHERE (period = … AND since = (DATE_BIN(…)) AND spender = …)
        LIMIT 21
        … INSERT INTO shorturl_spending … in a transaction, when there is none
        UPDATE shorturl_spending SET spent = (spent + 1) WHERE id = …
        … what `create` sends

    What goes wrong: time of check to time of use. Nothing that is spent is lost, and so the counter
    shows afterwards that more was spent than there was: F() is right until there is a condition.
    And when `create` fails, what it was to cost stays spent.

    What it costs: two statements, two more at the beginning of a period, and the links beyond the
    quota.

    When to use it: never with a limit.
    """
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    counter, _ = Spending.objects.get_or_create(
        spender=spender, period=period, since=since, defaults={"spent": 0}
    )
    if counter.spent + amount > limit:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    counter.spent = F("spent") + amount
    counter.save(update_fields=["spent"])
    return create()
