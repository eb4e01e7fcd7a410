from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from django.db import transaction

from shorturl.exceptions import QuotaExceeded
from shorturl.models import QuotaUsage, period_start

VERDICT = "right"
SHOWS = "a row lock from the check until the create"

T = TypeVar("T")


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Lock the counter, compare it with the limit, write it back, and create.

    SQL:
        BEGIN
        INSERT INTO shorturl_quotausage (spender, period, since, spent) VALUES (…)
        ON CONFLICT DO NOTHING
        SELECT … FROM shorturl_quotausage
        WHERE (period = … AND since = (DATE_BIN(…)) AND spender = …)
        LIMIT 21 FOR UPDATE
        UPDATE shorturl_quotausage SET spent = … WHERE id = …
        … what `create` sends
        COMMIT

    Why nothing can go wrong: only one process at a time holds the row lock, and the next one reads
    the row only after the first one has committed. The row is inserted first, because a row that
    does not exist cannot be locked. A failure rolls everything back, so nothing is spent.

    What it costs: five round trips besides those of `create`. The creates of one spender run one
    after another.

    When to use it: when the limit takes Python to compute, such as a tariff with steps.
    """
    since = period_start(period)
    with transaction.atomic():
        unused = QuotaUsage(spender=spender, period=period, since=since, spent=0)
        QuotaUsage.objects.bulk_create([unused], ignore_conflicts=True)
        counters = QuotaUsage.objects.select_for_update()
        counter = counters.get(spender=spender, period=period, since=since)
        if counter.spent + amount > limit:
            raise QuotaExceeded(spender, limit=limit, period=period)
        counter.spent += amount
        counter.save(update_fields=["spent"])
        return create()
