from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from shorturl.exceptions import QuotaExceeded
from shorturl.models import QuotaUsage, period_start

VERDICT = "wrong"
SHOWS = "read the counter, compare, add one, write: the lost update"

T = TypeVar("T")


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Read the counter, compare it with the limit, add one, write it back.

    SQL:
        SELECT … FROM shorturl_quotausage
        WHERE (period = … AND since = (DATE_BIN(…)) AND spender = …)
        ORDER BY id ASC LIMIT 1
        UPDATE shorturl_quotausage SET spender = …, spent = … WHERE id = …
        … INSERT INTO shorturl_quotausage … instead, when there is none
        … what `create` sends

    What goes wrong: the lost update. Two processes read the same number below the limit, and both
    write the same sum: two links, counted once, so even later creates exceed the limit. If neither
    finds a counter, both insert one, and the second INSERT raises IntegrityError. And when `create`
    fails, its amount stays spent.

    What it costs: two statements, and links beyond the quota.
    """
    since = period_start(period)
    current = {"spender": spender, "period": period, "since": since}
    counter = QuotaUsage.objects.filter(**current).first() or QuotaUsage(**current, spent=0)
    if counter.spent + amount > limit:
        raise QuotaExceeded(spender, limit=limit, period=period)
    counter.spent += amount
    counter.save()
    return create()
