"""A session of PostgreSQL on the event loop, by psycopg2's own asynchronous mode.

https://www.psycopg.org/docs/advanced.html#asynchronous-support
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg2 import extensions

from project.database import deadlines

# By default PostgreSQL plans a statement five times in a session before it keeps a plan. These
# statements have one good plan for all values: by a unique key.
PLAN_ONCE = "SET plan_cache_mode = force_generic_plan"


def connect(seconds: float, database: BaseDatabaseWrapper | None = None) -> Any:
    """Return a connection in the asynchronous mode; raise OperationalError after so many seconds.

    It leads where the database of Django leads, which is the default one if none is given. It
    blocks, as libpq does to look up a host.
    """
    database = database or connections[DEFAULT_DB_ALIAS]
    parameters = {**database.get_connection_params(), "async_": 1}
    with deadlines.answered_within(seconds):
        connection = database.get_new_connection(parameters)
        deadlines.wait(connection)
    return connection


class Session:
    """A session that runs one statement at a time. After an error the next statement connects."""

    def __init__(
        self,
        *,
        timeout: float,
        connect: Callable[[float], Any] = connect,
        threads: Executor | None = None,
    ) -> None:
        """Connect for the first statement.

        `timeout` is in seconds, for a statement and for connecting; 0 is no limit. `connect` is
        called in one of the `threads`, by default of the event loop.
        """
        self.timeout, self.connect, self.threads = timeout, connect, threads
        self.connection: Any = None
        self.cursor: Any = None
        self.prepared: set[str] = set()

    async def fetch(
        self, sql: Any, values: Sequence[Any], *, name: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of psycopg2.sql.

        With a `name` the session prepares it, unless a pooler gives each transaction another
        session of PostgreSQL. After an error, which is psycopg2.Error or TimeoutError, the session
        is closed: the next statement could take a late answer for its own.
        """
        try:
            async with asyncio.timeout(self.timeout or None):
                if deadlines.is_closed(self.connection):
                    self.close()
                if self.connection is None:
                    await self.open()
                if name and settings.DATABASE_POOLER == "none":
                    sql = await self.prepare(name, sql, len(values))
                await self.run(sql, values)
                has_rows = self.cursor.description is not None
                rows: list[tuple[Any, ...]] = self.cursor.fetchall() if has_rows else []
                return rows
        except BaseException:
            self.close()
            raise

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.connection = await loop.run_in_executor(self.threads, self.connect, self.timeout)
        self.cursor = self.connection.cursor()

    async def prepare(self, name: str, sql: Any, number: int) -> str:
        """Return the EXECUTE of a statement with a number of values; prepare it once."""
        if name not in self.prepared:
            parameters = tuple(f"${index}" for index in range(1, number + 1))
            await self.run(PLAN_ONCE)
            await self.run(f"PREPARE {name} AS {sql.as_string(self.connection) % parameters}")
            self.prepared.add(name)
        return f"EXECUTE {name} ({', '.join(['%s'] * number)})"

    async def run(self, sql: Any, values: Sequence[Any] | None = None) -> None:
        """Run a statement, and wait on the event loop until it is answered."""
        # pginterleave: alone - the races explore the same statements with Django's cursor
        self.cursor.execute(sql, values)
        while (state := self.connection.poll()) != extensions.POLL_OK:
            await wait_for_socket(self.connection.fileno(), state)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.prepared.clear()


async def wait_for_socket(socket: int, state: int) -> None:
    """Wait until the socket can be read or written, which poll() of psycopg2 says."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    watch, unwatch = loop.add_reader, loop.remove_reader
    if state == extensions.POLL_WRITE:
        watch, unwatch = loop.add_writer, loop.remove_writer
    watch(socket, ready.set)
    try:
        await ready.wait()
    finally:
        unwatch(socket)
