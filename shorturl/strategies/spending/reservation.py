from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.exceptions import QuotaExceeded
from shorturl.models import QuotaUsage

VERDICT = "right"
SHOWS = "the same upsert in the transaction of the create: a failure rolls both back"

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
    """Add one if the limit allows it, in the transaction of the create.

    Needs a unique constraint on spender, period and since.

    Why nothing can go wrong: check and use are one statement, as in `conditional_update`. A link
    and its cost are committed together or not at all: a failure, even of the whole process, rolls
    both back.

    What it costs: three round trips besides those of `create`. The creates of one spender run one
    after another, because the row stays locked until the COMMIT. `create` must do nothing that
    cannot be rolled back.

    When to use it: by default, where `create` writes to the same database. To spend several quotas,
    nest the calls, with the same quota outermost everywhere, so that no two creates deadlock.
    """
    values: list[Any] = [spender, period, period, amount, amount, limit, limit]
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(SPEND, values)
            row = cursor.fetchone()
        if row is None:
            raise QuotaExceeded(spender, limit=limit, period=period)
        return create()
