"""The roll-up of visits on a Citus cluster: shard by shard, each on its node.

Citus takes a WITH that inserts apart. So the statement of `batches` runs on the tables of the shard
themselves.
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing

from django.db import DatabaseError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.psycopg_any import sql

from project.citus.shard_map import Node
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits
from shorturl.strategies.rolling_up import batches

RECENT, HOURS, DAYS = (model._meta.db_table for model in (RecentVisits, HourlyVisits, DailyVisits))
# A row has the shards of the three tables that have the same keys.
LIST_SHARDS = """
    SELECT nodename, nodeport, groupid = 0, json_object_agg(logicalrelid, shardid)
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
    WHERE logicalrelid = ANY (%s::regclass[]) AND noderole = 'primary'
    GROUP BY nodename, nodeport, groupid, shardminvalue ORDER BY 1, 2
"""
FIND_KEY = sql.SQL("SELECT key FROM {} UNION ALL SELECT key FROM {} LIMIT 1")
# This DELETE finds no row. As Citus runs it, the shard of the key does not move before the COMMIT.
# What is written in the shard's own tables would be lost in a move.
HOLD_SHARD = sql.SQL("DELETE FROM {} WHERE key = %s AND id IS NULL").format(sql.Identifier(RECENT))
# Another roll-up of the shard leaves it alone. The lock is one of this node.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('roll up visits', %s))"


def roll_up_shards() -> int:
    """Roll up the visits of all shards; return how many rows were taken.

    Raises OperationalError at the end if a node did not answer. The others are rolled up then.
    """
    shards_of_nodes = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(LIST_SHARDS, [[RECENT, HOURS, DAYS]])
        for host, port, is_coordinator, shard_ids in cursor:
            node = Node() if is_coordinator else Node(host, port)
            shards_of_nodes[node].append(shard_ids)
    failures: list[str] = []
    total = 0
    for node, shards in shards_of_nodes.items():
        try:
            with closing(node.open_database()) as database:
                for shard_ids in shards:
                    total += roll_up_shard(database, shard_ids)
        except DatabaseError as error:
            failures.append(f"{node}: {str(error).splitlines()[0]}")
    if failures:
        raise OperationalError(f"not all nodes answer: {'; '.join(failures)}")
    return total


def roll_up_shard(database: BaseDatabaseWrapper, shard_ids: Mapping[str, int]) -> int:
    """Roll up a shard, given by its id in each table; return how many rows of visits it took."""
    tables = {table: sql.Identifier(f"{table}_{shard}") for table, shard in shard_ids.items()}
    # The statement of a plain database, with the tables of the shard in place of its tables.
    move = sql.Composed(
        tables[part.string] if isinstance(part, sql.Identifier) else part for part in batches.MOVE
    )
    total = 0
    with database.cursor() as cursor:
        cursor.execute(FIND_KEY.format(tables[RECENT], tables[DAYS]))
        key = cursor.fetchone()  # None if there is nothing to roll up
        taken = batches.BATCH
        while key and taken >= batches.BATCH:
            # pginterleave: alone - the tests on a cluster roll up in several processes
            cursor.execute("BEGIN")
            cursor.execute(HOLD_SHARD, key)
            cursor.execute(TRY_LOCK, [shard_ids[RECENT]])
            (is_free,) = cursor.fetchone()
            taken = 0
            if is_free:
                cursor.execute(move, batches.move_params())
                (taken,) = cursor.fetchone()
            cursor.execute("COMMIT")
            total += taken
    return total
