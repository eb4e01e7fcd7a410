from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
SPEND = sql.SQL("""
    INSERT INTO {table} AS counter (spender, period, since, spent)
    SELECT %s, %s, date_bin(%s, now(), 'epoch'), %s WHERE %s <= %s
    ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
    WHERE counter.spent + excluded.spent <= %s
    RETURNING id
""").format(table=sql.Identifier(Spending._meta.db_table))


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Add one if one is left, in one statement, and take it back when the create fails.

    What it does: upserts the counter of this period, with the limit as the condition, and creates.
    It returns what `create` returns, and raises ShortUrl.QuotaExceeded when no row came back: the
    quota is used up. It needs a unique constraint on spender, period and since.

    SQL:
        INSERT INTO shorturl_spending AS counter (spender, period, since, spent)
        SELECT …, …, date_bin(…, now(), 'epoch'), 1 WHERE 1 <= …
        ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
        WHERE counter.spent + excluded.spent <= …
        RETURNING id
        … what `create` sends

    Why nothing can go wrong: check and use are one statement. It waits for whoever changes the
    same row, and looks at the condition again, with what that one has committed.

    What it costs: one round trip, and the row is locked for no longer than the statement takes. A
    create that fails takes two, and until the second others are refused what it gives back; a
    process that is killed in between never does, so that its spender has one less in this period.
    Inside a caller's transaction the row is locked until that ends, and `create` has a savepoint
    (two more round trips), as nothing can be given back after an error of the database without.

    When to use it: where what is paid for is slow or happens elsewhere, such as an e-mail or a
    call of another service, and no transaction can be kept open for it.
    """
    values: list[Any] = [spender, period, period, amount, amount, limit, limit]
    with connection.cursor() as cursor:
        cursor.execute(SPEND, values)
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    try:
        if not connection.in_atomic_block:
            return create()
        with transaction.atomic():
            return create()
    except Exception:
        Spending.objects.filter(pk=row[0]).update(spent=F("spent") - amount)
        raise
