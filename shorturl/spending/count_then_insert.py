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
    """Count what was made in this period, and make one more.

    What it does: counts the spender's rows, creates, and inserts a row for it. It returns what
    `create` returns, and raises ShortUrl.QuotaExceeded when there would be more than `limit` rows.

    SQL:
        SELECT COUNT(*) AS __count FROM shorturl_spending
        WHERE (period IS NULL AND since >= (DATE_BIN(…, CURRENT_TIMESTAMP, …)) AND spender = …)
        … what `create` sends
        BEGIN
        INSERT INTO shorturl_spending (spender, period, since, spent) VALUES (…) RETURNING …
        COMMIT

    What goes wrong: time of check to time of use. With one left, everybody who counts before
    anybody inserts finds it, and takes it. A transaction around it all is no help, as nobody sees
    what others have not committed.

    What it costs: a count that takes longer the more was made, and the links beyond the quota.

    When to use it: never. It is how quotas are mostly written, as the links can be counted by
    themselves and no counter has to be kept (ronaldgrn/django-link-shortener counts its users'
    links, then creates).
    """
    since = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    made = Spending.objects.filter(spender=spender, period=None, since__gte=since)
    if made.count() + amount > limit:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    created = create()
    Spending.objects.bulk_create([Spending(spender=spender)] * amount)
    return created
