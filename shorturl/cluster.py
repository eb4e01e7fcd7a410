"""What DATABASE_CITUS chooses: the statements of redirects and of the roll-up."""

from collections.abc import Iterable
from datetime import datetime
from types import ModuleType

from django.conf import settings
from django.db import connection

from shorturl.models import VisitCount
from shorturl.strategies.recording_visits import combined, one_transaction
from shorturl.strategies.rolling_up import batches, by_key

BY_SHARD = """
    SELECT array_agg(key) FROM unnest(%s::text[]) AS key
    GROUP BY get_shard_id_for_distribution_column(%s::regclass, key)
"""


def recording() -> ModuleType:
    """Return the strategy that counts hits and records their visits.

    Citus takes a WITH that inserts apart, and sends it by way of the coordinator.
    """
    return one_transaction if settings.DATABASE_CITUS else combined


def roll_up(unit: str, into: str, before: datetime) -> int:
    """Roll up a batch of rows of a unit; return how many it took.

    On Citus no statement may lock rows of several shards.
    """
    if settings.DATABASE_CITUS:
        return by_key.roll_up(unit, into, before, groups=by_shard)
    return batches.roll_up(unit, into, before)


def by_shard(keys: list[str]) -> Iterable[list[str]]:
    with connection.cursor() as cursor:
        cursor.execute(BY_SHARD, [keys, VisitCount._meta.db_table])
        return [of_shard for (of_shard,) in cursor.fetchall()]
