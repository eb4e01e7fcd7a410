"""The sessions of this process with one node, and the transactions that count hits there.

Citus takes a WITH that inserts apart, and sends its parts by way of the coordinator. So two
statements in one transaction count a hit: an UPDATE, and an INSERT of the visits, both of one node.
Nothing is prepared: Citus 13.2 plans a generic plan on a worker each time, and leaks 55 kB each.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import psycopg2
from django.conf import settings
from django.db.backends.postgresql.psycopg_any import sql

from project.citus.shard_map import LINKS, READ_MAP, Node, ShardMap
from project.serving.connection import Session, Statement, connect
from project.serving.hit_counter import MAX_KEY_STATEMENTS, Row
from project.serving.redirects import fetch
from shorturl import following
from shorturl.exceptions import RowLocked
from shorturl.models import RecentVisits, Visit
from shorturl.outages import LOCK_NOT_AVAILABLE
from shorturl.strategies.recording_visits import combined

T = TypeVar("T")
MAX_SESSIONS = MAX_KEY_STATEMENTS + 1  # of this process with each node
NAMES: dict[str, Any] = {
    "links": sql.Identifier(LINKS),
    "recent": sql.Identifier(RecentVisits._meta.db_table),
    "columns": combined.NAMES["columns"],
}
COUNT_KEY = sql.SQL("""
    BEGIN;
    UPDATE {links} SET hits = hits + %s
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits <= max_hits - %s::bigint)
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
INSERT_VISITS = sql.SQL("INSERT INTO {recent} (key, starts_at, kinds) VALUES {rows}")
VISITS_OF_KEY = sql.SQL("(%s, date_trunc('hour', statement_timestamp(), 'UTC'), %s)")
COMMIT = Statement("", sql.SQL("COMMIT"), ())
EXISTS = Statement("", sql.SQL("SELECT FROM {links} WHERE key = %s").format(**NAMES), ())


class NodeSessions:
    """The few sessions of this process with one node. A dead or frozen node holds no others."""

    def __init__(self, node: Node) -> None:
        self.free = asyncio.Semaphore(MAX_SESSIONS)
        # A frozen node holds the threads that connect to it, so each node has its own.
        threads = ThreadPoolExecutor(MAX_SESSIONS, f"connect to {node}")
        self.sessions = [
            Session(
                (),
                timeout=settings.DATABASE_REQUEST_TIMEOUT,
                prepares=False,
                connect=partial(connect_to, node),
                threads=threads,
            )
            for _ in range(MAX_SESSIONS)
        ]

    async def use(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Return what `work` returns for a free session.

        Raises TimeoutError if no session is free within the limit of the queue.
        """
        async with asyncio.timeout(settings.QUEUE_TIMEOUT):
            await self.free.acquire()
        session = self.sessions.pop()
        try:
            return await work(session)
        finally:
            self.sessions.append(session)
            self.free.release()

    async def read_map(self) -> ShardMap:
        """Return the map of shards as this node knows it."""
        statement = Statement("", sql.SQL(READ_MAP), ())
        return ShardMap(await self.use(lambda session: session.fetch(statement, [LINKS])))

    async def has_link(self, key: str) -> bool:
        """Return whether there is a row of the key: of a link that is live or not."""
        return bool(await self.use(lambda session: session.fetch(EXISTS, [key])))

    async def count_key(self, key: str, visits: Sequence[Visit]) -> Row | None:
        """Count the visits to a key as the statement of `combined` does."""
        number, _, uses, _ = following.key_values(key, visits)
        statement = Statement("", COUNT_KEY, ())
        try:
            rows = await self.use(partial(count, statement, [number, key, uses], {key: visits}))
        except psycopg2.Error as error:
            if error.pgcode == LOCK_NOT_AVAILABLE:
                raise RowLocked(key) from error
            raise
        return rows[0] if rows else None

    async def count_keys(self, visits: Mapping[str, Sequence[Visit]]) -> dict[str, Row]:
        """Count the visits to several keys of one shard as the statement of `combined` does."""
        hits = {key: len(of_key) for key, of_key in visits.items()}
        uses = {key: combined.uses_of(of_key) for key, of_key in visits.items()}
        values = {"keys": tuple(hits), "hits": json.dumps(hits), "uses": json.dumps(uses)}
        statement = Statement("", COUNT_KEYS, ())
        rows = await self.use(partial(count, statement, values, visits))
        return {row[1]: row for row in rows}


def connect_to(node: Node, seconds: float) -> Any:
    """Return a connection to a node as connect() does."""
    return connect(seconds, node.open_database())


async def count(
    statement: Statement, values: Any, visits: Mapping[str, Sequence[Visit]], session: Session
) -> list[Row]:
    """Count hits and record their visits in one transaction; return the rows of the links."""
    rows = await fetch(session, statement, values)
    if rows and settings.SHORTURL_VISITS:
        keys = sorted(row[1] for row in rows)
        places = sql.SQL(", ").join([VISITS_OF_KEY] * len(keys))
        insert = INSERT_VISITS.format(**NAMES, rows=places) + sql.SQL("; COMMIT")
        recorded = [value for key in keys for value in (key, combined.as_json(visits[key]))]
        await fetch(session, Statement("", insert, ()), recorded)
    else:
        await fetch(session, COMMIT, ())
    return rows
