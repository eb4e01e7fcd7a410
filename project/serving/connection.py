"""A session of PostgreSQL on the event loop, by psycopg2's own asynchronous mode.

https://www.psycopg.org/docs/advanced.html#asynchronous-support
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from typing import Any

import psycopg2
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg2 import extensions
from psycopg2.extras import NamedTupleCursor

from project.database import deadlines

# By default PostgreSQL plans a statement five times in a session before it keeps a plan. These
# statements have one good plan for all values: they look up links by a unique index. PostgreSQL has
# no other choice, as it may plan when the table has few rows or no statistics.
PLAN_ONCE = (
    "SET plan_cache_mode = force_generic_plan;"
    " SET enable_seqscan = off; SET enable_bitmapscan = off"
)

observe_statement: Any = nullcontext
if settings.SHORTURL_METRICS_TOKEN:
    from project.observability.metrics import observe_statement
logger = logging.getLogger(__name__)


class Session:
    """A session that runs one statement at a time. After an error the next statement connects.

    If the session is lost in a transaction, the next statement of the transaction raises.

    It connects in one of `threads`, by default those of the event loop, to the database of Django
    that `open_database` returns.
    """

    def __init__(
        self,
        open_database: Callable[[], BaseDatabaseWrapper] = lambda: connections[DEFAULT_DB_ALIAS],
        threads: Executor | None = None,
    ) -> None:
        self.open_database = open_database
        self.threads = threads
        self.connection: Any = None
        self.cursor: Any = None
        self.prepared: set[str] = set()

    def connect(self) -> Any:
        """Connect in the asynchronous mode; raise OperationalError at the time limit.

        Blocks the thread, as libpq does to look up a host.
        """
        database = self.open_database()
        parameters = {**database.get_connection_params(), "async_": 1}
        with deadlines.limit_waits(settings.DATABASE_REQUEST_TIMEOUT):
            connection = database.get_new_connection(parameters)
            deadlines.wait_for_answer(connection)
        return connection

    async def fetch(self, sql: Any, values: Sequence[Any], *, name: str = "") -> list[Any]:
        """Return the rows of a statement of psycopg2.sql, as named tuples of its columns.

        A statement with a `name` is prepared, unless a pooler is in between. Raises psycopg2.Error
        or TimeoutError. Any error closes the session: the next statement could take a late answer
        for its own.
        """
        try:
            with observe_statement():
                async with asyncio.timeout(settings.DATABASE_REQUEST_TIMEOUT or None):
                    return await self.fetch_unlimited(sql, values, name)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                reason = str(error) or type(error).__name__
                logger.error("A statement of redirects failed: %s", reason)
            raise

    async def fetch_unlimited(self, sql: Any, values: Sequence[Any], name: str) -> list[Any]:
        """Return the rows of a statement, without a time limit; connect before if necessary."""
        if deadlines.is_closed(self.connection):
            status = self.connection.info.transaction_status
            self.close()
            if status != extensions.TRANSACTION_STATUS_IDLE:
                # In a new session the rest of the transaction would be committed alone.
                raise psycopg2.OperationalError("The session was lost in a transaction")
        if self.connection is None:
            loop = asyncio.get_running_loop()
            self.connection = await loop.run_in_executor(self.threads, self.connect)
            self.cursor = self.connection.cursor(cursor_factory=NamedTupleCursor)
        if name and settings.DATABASE_POOLER == "none":
            sql = await self.prepare(name, sql, len(values))
        await self.run(sql, values)
        has_rows = self.cursor.description is not None
        return list(self.cursor.fetchall()) if has_rows else []

    async def prepare(self, name: str, sql: Any, number: int) -> str:
        """Prepare a statement with `number` values once in a session; return its EXECUTE."""
        if name not in self.prepared:
            parameters = tuple(f"${index}" for index in range(1, number + 1))
            text = sql.as_string(self.connection) % parameters  # $1, $2 … in place of each %s
            await self.run(PLAN_ONCE)
            await self.run(f"PREPARE {name} AS {text}")
            self.prepared.add(name)
        return f"EXECUTE {name} ({', '.join(['%s'] * number)})"

    async def run(self, sql: Any, values: Sequence[Any] | None = None) -> None:
        """Run a statement, and wait on the event loop until it is answered."""
        # pginterleave: alone - the races explore the same statements with Django's cursor
        self.cursor.execute(sql, values)
        while (state := self.connection.poll()) != extensions.POLL_OK:
            await wait_for_socket(self.connection.fileno(), state)

    def close(self) -> None:
        """Close the connection; the next statement opens another one."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.prepared.clear()


async def wait_for_socket(socket: int, state: int) -> None:
    """Wait until a socket can be written or read: `state` is the answer of psycopg2's poll()."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    if state == extensions.POLL_WRITE:
        loop.add_writer(socket, ready.set)
    else:
        loop.add_reader(socket, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(socket)
        loop.remove_reader(socket)
