"""The sessions of this process with one node, and the transactions that count hits there.

Without a cluster, one statement counts hits and inserts their visits. Citus would split it, and
send its parts by way of the coordinator. So two statements in one transaction do it, an UPDATE and
an INSERT, and both run on the node. They are not prepared: on a worker, Citus 13.2 makes the
generic plan of a prepared statement each time anew, and leaks 55 kB of memory each time.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import psycopg2
from django.conf import settings
from django.db.backends.postgresql.psycopg_any import sql

from project.citus.shard_map import LINKS, READ_MAP, Node, ShardMap
from project.serving.connection import Session
from project.serving.hit_counter import MAX_KEY_STATEMENTS, KeyStatements, Row
from shorturl.exceptions import RowLocked
from shorturl.models import RecentVisits, Visit
from shorturl.outages import LOCK_NOT_AVAILABLE
from shorturl.strategies.recording_visits import combined

MAX_SESSIONS = MAX_KEY_STATEMENTS + 1  # of this process with each node
NAMES: dict[str, Any] = {
    "links": sql.Identifier(LINKS),
    "recent": sql.Identifier(RecentVisits._meta.db_table),
    "columns": combined.NAMES["columns"],
}
COUNT_KEY = sql.SQL("""
    BEGIN;
    UPDATE {links} SET hits = hits + %(hits)s
    WHERE key = %(key)s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits <= max_hits - %(uses)s::bigint)
    RETURNING {columns}
""").format(**NAMES)
# Both IN show that all keys are of one shard; its node then runs the whole statement.
COUNT_KEYS = sql.SQL("""
    BEGIN;
    WITH locked AS (
        SELECT key AS locked_key FROM {links}
        WHERE key IN %(keys)s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - (%(uses)s::jsonb ->> key)::bigint)
        ORDER BY key FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE {links} SET hits = hits + (%(hits)s::jsonb ->> key)::bigint
    FROM locked WHERE key = locked_key AND key IN %(keys)s
    RETURNING {columns}
""").format(**NAMES)
INSERT_VISITS = sql.SQL("INSERT INTO {recent} (key, starts_at, kinds) VALUES {rows}; COMMIT")
VISITS_OF_KEY = sql.SQL("(%s, date_trunc('hour', statement_timestamp(), 'UTC'), %s)")


class NodeSessions:
    """The sessions of this process with one node. A frozen node does not delay other nodes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        # A frozen node holds the threads that connect to it, so each node has its own threads.
        threads = ThreadPoolExecutor(MAX_SESSIONS, f"connect to {node}")
        self.key_statements = KeyStatements()
        self.free: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
        for _ in range(MAX_SESSIONS):
            self.free.put_nowait(Session(node.open_database, threads))

    @asynccontextmanager
    async def take_session(self) -> AsyncIterator[Session]:
        """Take a free session for the block; raise TimeoutError if none is free in time."""
        async with asyncio.timeout(settings.QUEUE_TIMEOUT):
            session = await self.free.get()
        try:
            yield session
        except psycopg2.Error as error:
            error.add_note(str(self.node))  # for the log of the outage
            raise
        finally:
            self.free.put_nowait(session)

    async def read_map(self) -> ShardMap:
        """Return the map of shards that this node knows; raise OperationalError if it has none."""
        async with self.take_session() as session:
            rows = await session.fetch(sql.SQL(READ_MAP), [LINKS])
        if not rows:
            raise psycopg2.OperationalError(f"The links are not distributed, says {self.node}")
        return ShardMap(rows)

    async def count_key(self, key: str, visits: Sequence[Visit]) -> Row | None:
        """Count the visits to a key, all or none: a `count_key` of HitCounter."""
        values = {"hits": len(visits), "key": key, "uses": combined.count_uses(visits)}
        try:
            rows = await self.count(COUNT_KEY, values, {key: visits})
        except psycopg2.Error as error:
            if error.pgcode == LOCK_NOT_AVAILABLE:
                raise RowLocked(key) from error
            raise
        return rows[0] if rows else None

    async def count_keys(self, visits: Mapping[str, Sequence[Visit]]) -> dict[str, Row]:
        """Count the visits to several keys of one shard: a `count_keys` of HitCounter."""
        hits = {key: len(visits[key]) for key in visits}
        uses = {key: combined.count_uses(visits[key]) for key in visits}
        values = {"keys": tuple(hits), "hits": json.dumps(hits), "uses": json.dumps(uses)}
        try:
            return {row.key: row for row in await self.count(COUNT_KEYS, values, visits)}
        except psycopg2.NotSupportedError:
            # The shard was split since the map was read. A key without a row is then counted alone.
            return {}

    async def count(
        self, update: Any, values: Any, visits: Mapping[str, Sequence[Visit]]
    ) -> list[Row]:
        """Send `update`, which begins a transaction, record the visits, and commit; return rows.

        An error closes the session, and with it the transaction: see Session.fetch(). So does the
        loss of the session between the statements: the second one raises.
        """
        async with self.take_session() as session:
            rows: list[Row] = await session.fetch(update, values)
            if not rows or not settings.SHORTURL_VISITS:
                await session.fetch(sql.SQL("COMMIT"), [])
                return rows
            placeholders = sql.SQL(", ").join([VISITS_OF_KEY] * len(rows))
            recorded = []
            for row in rows:
                recorded += [row.key, json.dumps(visits[row.key])]
            await session.fetch(INSERT_VISITS.format(**NAMES, rows=placeholders), recorded)
            return rows
