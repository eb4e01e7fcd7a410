from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from shorturl.exceptions import QuotaExceeded
from shorturl.models import period_start
from shorturl.strategies.exhibits.models import SingleCreate

VERDICT = "wrong"
SHOWS = "count the creates, then create: time of check to time of use"

T = TypeVar("T")


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Count the creates of the current period, and create if the limit allows it.

    SQL:
        SELECT COUNT(*) AS __count FROM exhibits_singlecreate
        WHERE (since >= (DATE_BIN(…, CURRENT_TIMESTAMP, …)) AND spender = …)
        … what `create` sends
        BEGIN
        INSERT INTO exhibits_singlecreate (spender, since) VALUES (…) RETURNING …
        COMMIT

    What goes wrong: time of check to time of use. With one create left, several processes count
    before any of them inserts, and all of them create. A transaction around both statements does
    not help, because it does not see rows that others have not committed. Many quotas are written
    like this (ronaldgrn/django-link-shortener counts its users' links, then creates).

    What it costs: a count that takes longer with each create, and links beyond the quota.
    """
    since = period_start(period)
    made = SingleCreate.objects.filter(spender=spender, since__gte=since)
    if made.count() + amount > limit:
        raise QuotaExceeded(spender, limit=limit, period=period)
    created = create()
    SingleCreate.objects.bulk_create([SingleCreate(spender=spender)] * amount)
    return created
