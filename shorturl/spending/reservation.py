from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
SPEND = sql.SQL("""
    INSERT INTO {table} AS counter (spender, period, since, spent)
    SELECT %s, %s, date_bin(%s, now(), 'epoch'), %s WHERE %s <= %s
    ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
    WHERE counter.spent + excluded.spent <= %s
""").format(table=sql.Identifier(Spending._meta.db_table))


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    """Add one if one is left, in the transaction of the create.

    What it does: upserts the counter of this period, with the limit as the condition, and creates
    before it commits. It returns what `create` returns, and raises ShortUrl.QuotaExceeded when no
    row was touched: the quota is used up. It needs a unique constraint on
    spender, period and since.

    SQL:
        BEGIN
        INSERT INTO shorturl_spending AS counter (spender, period, since, spent)
        SELECT …, …, date_bin(…, now(), 'epoch'), 1 WHERE 1 <= …
        ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
        WHERE counter.spent + excluded.spent <= …
        … what `create` sends
        COMMIT

    Why nothing can go wrong: check and use are one statement. It waits for whoever has reserved
    one and is not done, and then knows what became of it. A link and what it costs are committed
    together or not at all: what fails is rolled back, also when the process is killed.

    What it costs: three round trips besides those of `create`, and a spender's creates happen one
    after another, as the row stays locked until the COMMIT. `create` must do nothing that cannot be
    rolled back.

    When to use it: by default, where what is paid for is in the same database.
    """
    with transaction.atomic():
        values: list[Any] = [spender, period, period, amount, amount, limit, limit]
        with connection.cursor() as cursor:
            cursor.execute(SPEND, values)
            reserved = cursor.rowcount
        if not reserved:
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()
