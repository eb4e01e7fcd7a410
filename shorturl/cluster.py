"""What DATABASE_CITUS chooses: the statements of redirects and of the roll-up."""

from contextvars import ContextVar
from datetime import datetime
from types import ModuleType
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import VisitCount
from shorturl.strategies.recording_visits import combined, one_transaction
from shorturl.strategies.rolling_up import batches, by_key

# The table that a roll-up searches: on Citus that of a shard, as one of all shards needs all nodes.
# It is only read. Each change names the distributed table and the key.
searched = ContextVar("searched", default=VisitCount._meta.db_table)
DUE = sql.SQL("""
    SELECT DISTINCT key FROM (
        SELECT key FROM {table} WHERE unit = %s AND starts_at < %s ORDER BY starts_at LIMIT %s
    ) AS oldest
""")


def recording() -> ModuleType:
    """Return the strategy that counts hits and records their visits.

    Citus takes a WITH that inserts apart, and sends it by way of the coordinator.
    """
    return one_transaction if settings.DATABASE_CITUS else combined


def roll_up(unit: str, into: str, before: datetime) -> int:
    """Roll up a batch of rows of a unit; return how many it took.

    On Citus no statement may lock rows of several shards.
    """
    if not settings.DATABASE_CITUS:
        return batches.roll_up(unit, into, before)
    found = search(DUE, [unit, before, by_key.BATCH])
    return by_key.roll_up(unit, into, before, keys=[key for (key,) in found])


def search(statement: Any, values: list[Any], **names: Any) -> list[Any]:
    """Return the rows of a SELECT from {table}, which is `searched`."""
    with connection.cursor() as cursor:
        table = sql.Identifier(searched.get())
        cursor.execute(statement.format(table=table, **names), values)
        return list(cursor.fetchall())
