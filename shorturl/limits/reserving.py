"""The strategy `reservation` for several quotas in one statement, which the service uses."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, transaction

from shorturl.models import QuotaUsage, ShortUrl

T = TypeVar("T")
Charge = tuple[timedelta, int, int]  # a period, the limit in it, and the amount to spend
RESERVE = f"""
    INSERT INTO {connection.ops.quote_name(QuotaUsage._meta.db_table)} AS counter
    (spender, period, since, spent) VALUES {{}}
    ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
    WHERE counter.spent + excluded.spent <= CASE excluded.period {{}} END
    RETURNING period
"""  # noqa: S608
ROW, LIMIT = "(%s, %s, date_bin(%s, now(), 'epoch'), %s)", "WHEN %s THEN %s"


def reserve(spender: str, create: Callable[[], T], charges: Sequence[Charge]) -> T:
    """Spend all charges and create in one transaction; return the result of `create`.

    Each charge has a different period. Every create locks the counter of the longest period first,
    so no two creates deadlock. Raises ShortUrl.QuotaExceeded for a quota that is used up; then
    nothing is spent.
    """
    charges = sorted(charges, reverse=True)
    statement = RESERVE.format(", ".join([ROW] * len(charges)), " ".join([LIMIT] * len(charges)))
    values: list[Any] = []
    values += (each for when, _, price in charges for each in (spender, when, when, price))
    values += (each for when, most, _ in charges for each in (when, most))
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            spent = {row[0] for row in cursor.fetchall()}
        for when, most, price in charges:
            # The upsert does not check the condition for a new counter.
            if when not in spent or price > most:
                raise ShortUrl.QuotaExceeded(spender, limit=most, period=when)
        return create()
