from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
SPEND = sql.SQL("""
    INSERT INTO {table} AS counter (spender, period, since, spent) VALUES {rows}
    ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
    WHERE counter.spent + excluded.spent <= CASE excluded.period {limits} END
    RETURNING period
""")
TABLE = sql.Identifier(Spending._meta.db_table)
ROW, LIMIT = sql.SQL("(%s, %s, date_bin(%s, now(), 'epoch'), %s)"), sql.SQL("WHEN %s THEN %s")


def spend(
    spender: str,
    create: Callable[[], T],
    *,
    limit: int,
    period: timedelta,
    amount: int = 1,
    also: Sequence[tuple[timedelta, int, int]] = (),
) -> T:
    """Add one if one is left, in the transaction of the create.

    What it does: upserts the counter of this period, with the limit as the condition, and creates
    before it commits. `also` are more quotas, each with another period, its limit and its amount,
    which the same statement spends. It returns what `create` returns, and raises
    ShortUrl.QuotaExceeded for a counter that did not come back: that quota is used up, and nothing
    is spent. It needs a unique constraint on spender, period and since.

    SQL:
        BEGIN
        INSERT INTO shorturl_spending AS counter (spender, period, since, spent)
        VALUES (…, …, date_bin(…, now(), 'epoch'), 1)
        ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
        WHERE counter.spent + excluded.spent <= CASE excluded.period WHEN … THEN … END
        RETURNING period
        … what `create` sends
        COMMIT

    Why nothing can go wrong: check and use are one statement. It waits for whoever has reserved
    one and is not done, and then knows what became of it. A link and what it costs are committed
    together or not at all: what fails is rolled back, also when the process is killed. Everybody
    locks the counter of the longest period first, so that no two can deadlock over several.

    What it costs: three round trips besides those of `create`, however many quotas there are, and a
    spender's creates happen one after another, as the rows stay locked until the COMMIT. `create`
    must do nothing that cannot be rolled back.

    When to use it: by default, where what is paid for is in the same database.
    """
    quotas = sorted([(period, limit, amount), *also], reverse=True)
    rows, limits = sql.SQL(", ").join([ROW] * len(quotas)), sql.SQL(" ").join([LIMIT] * len(quotas))
    values: list[Any] = []
    values += (each for when, _, price in quotas for each in (spender, when, when, price))
    values += (each for when, most, _ in quotas for each in (when, most))
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(SPEND.format(table=TABLE, rows=rows, limits=limits), values)
            spent = {row[0] for row in cursor.fetchall()}
        for when, most, price in quotas:
            if when not in spent or price > most:  # which a new counter does not look at
                raise ShortUrl.QuotaExceeded(spender, limit=most, period=when)
        return create()
