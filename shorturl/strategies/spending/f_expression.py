from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db.models import F, Func

from shorturl.exceptions import QuotaExceeded
from shorturl.models import QuotaUsage

VERDICT = "wrong"
SHOWS = "counts right, and checks the limit before"

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Compare the counter with the limit, and let the database add one.

    What it does: returns the result of `create`, or raises QuotaExceeded.

    SQL:
        SELECT … FROM shorturl_quotausage
        WHERE (period = … AND since = (DATE_BIN(…)) AND spender = …)
        LIMIT 21
        … INSERT INTO shorturl_quotausage … in a transaction, when there is none
        UPDATE shorturl_quotausage SET spent = (spent + 1) WHERE id = …
        … what `create` sends

    What goes wrong: time of check to time of use: F() is right only where no limit is checked. The
    counter shows afterwards that more was spent than the limit. And when `create` fails, its amount
    stays spent.

    What it costs: two statements, two more at the beginning of a period, and links beyond the
    quota.

    When to use it: never with a limit.
    """
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    counter, _ = QuotaUsage.objects.get_or_create(
        spender=spender, period=period, since=since, defaults={"spent": 0}
    )
    if counter.spent + amount > limit:
        raise QuotaExceeded(spender, limit=limit, period=period)
    counter.spent = F("spent") + amount
    counter.save(update_fields=["spent"])
    return create()
