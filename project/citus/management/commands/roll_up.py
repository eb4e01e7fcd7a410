"""`manage.py roll_up`; on a Citus cluster shard by shard, each on its node.

Citus takes a WITH that inserts apart. So the statement of `batches` runs on the tables of the shard
themselves.
"""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.psycopg_any import sql

from project.citus.shard_map import READ_MAP, Node, ShardMap
from shorturl.management.commands import roll_up
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits
from shorturl.strategies.rolling_up import batches

TABLES = [model._meta.db_table for model in (RecentVisits, HourlyVisits, DailyVisits)]
FIND_KEY = sql.SQL("SELECT key FROM {} UNION ALL SELECT key FROM {} LIMIT 1")
# It deletes nothing. As a statement of Citus it waits while the shard of the key moves, and lets it
# not move before the COMMIT: a row that is written in a shard's own table then would be lost.
HOLD_SHARD = sql.SQL("DELETE FROM {} WHERE key = %s AND id IS NULL").format(
    sql.Identifier(RecentVisits._meta.db_table)
)
# Another roll-up of the shard does nothing. The lock is one of this node.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('roll up visits', %s))"


class Command(roll_up.Command):
    """A node that does not answer leaves the others to be rolled up."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Raise CommandError at the end if a node was away."""
        if not settings.DATABASE_CITUS:
            super().handle(*args, **options)
            return
        failures, total = list[str](), 0
        for node, shards in list_shards().items():
            try:
                with closing(node.open_database()) as database:
                    total += sum(roll_up_shard(database, ids) for ids in shards)
            except DatabaseError as error:
                failures.append(f"{node}: {str(error).splitlines()[0]}")
        self.stdout.write(f"{total:,} rows of visits rolled up.")
        if failures:
            raise CommandError(f"The next run does the rest: {'; '.join(failures)}.")


def list_shards() -> dict[Node, list[tuple[int, ...]]]:
    """Return the shards of each node: the ids of the shards of TABLES that have the same keys."""
    maps = []
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(READ_MAP, [table])
            maps.append(ShardMap(cursor.fetchall()))
    shards: dict[Node, list[tuple[int, ...]]] = {}
    for ids in zip(*(shard_map.shards for shard_map in maps), strict=True):
        shards.setdefault(maps[0].find_node(ids[0]), []).append(ids)
    return shards


def roll_up_shard(database: BaseDatabaseWrapper, shards: Sequence[int]) -> int:
    """Roll up the visits of a shard, whose ids are in the order of TABLES; return how many rows."""
    tables = {
        table: sql.Identifier(f"{table}_{shard}")
        for table, shard in zip(TABLES, shards, strict=True)
    }
    recent, _, days = tables.values()
    move = sql.Composed(
        tables[part.string] if isinstance(part, sql.Identifier) else part for part in batches.MOVE
    )
    total = 0
    with database.cursor() as cursor:
        cursor.execute(FIND_KEY.format(recent, days))
        key = cursor.fetchone()
        taken = batches.BATCH if key else 0
        while taken >= batches.BATCH:
            # pginterleave: alone - the tests on a cluster roll up in several processes
            cursor.execute("BEGIN")
            cursor.execute(HOLD_SHARD, key)
            cursor.execute(TRY_LOCK, [shards[0]])
            (is_free,) = cursor.fetchone()
            taken = 0
            if is_free:
                cursor.execute(move, batches.move_values())
                (taken,) = cursor.fetchone()
            cursor.execute("COMMIT")
            total += taken
    return total
