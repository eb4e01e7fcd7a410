from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F

from shorturl.exceptions import QuotaExceeded
from shorturl.models import QuotaUsage

VERDICT = "right"
SHOWS = "an upsert with the limit as its condition, undone when the create fails"

T = TypeVar("T")
SPEND = sql.SQL("""
    INSERT INTO {table} AS counter (spender, period, since, spent)
    SELECT %s, %s, date_bin(%s, now(), 'epoch'), %s WHERE %s <= %s
    ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
    WHERE counter.spent + excluded.spent <= %s
    RETURNING id
""").format(table=sql.Identifier(QuotaUsage._meta.db_table))


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Add one if the limit allows it, in one statement, and subtract it when the create fails.

    Needs a unique constraint on spender, period and since.

    Why nothing can go wrong: check and use are one statement. It waits for other transactions that
    change the row, and then checks the condition on what they have committed. The first WHERE
    checks a counter that does not exist yet.

    What it costs: one round trip, and the row is locked only while the statement runs. A create
    that fails costs a second statement. Until then other creates may be refused the amount that it
    gives back, and a process that is killed never gives it back. Inside a caller's transaction the
    row stays locked until that transaction ends, and `create` runs in a savepoint, without which
    the amount could not be given back after a database error.

    When to use it: where `create` is slow or happens elsewhere, such as an e-mail or a call of
    another service, and no transaction can stay open for it.
    """
    values: list[Any] = [spender, period, period, amount, amount, limit, limit]
    with connection.cursor() as cursor:
        cursor.execute(SPEND, values)
        row = cursor.fetchone()
    if row is None:
        raise QuotaExceeded(spender, limit=limit, period=period)
    try:
        if not connection.in_atomic_block:
            return create()
        with transaction.atomic():
            return create()
    except Exception:
        QuotaUsage.objects.filter(pk=row[0]).update(spent=F("spent") - amount)
        raise
