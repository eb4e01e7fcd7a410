"""A session of PostgreSQL on the event loop, by psycopg2's own asynchronous mode.

https://www.psycopg.org/docs/advanced.html#asynchronous-support
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg2 import extensions

from project.database import deadlines

# By default PostgreSQL plans a statement five times in a session before it keeps a plan. These
# statements have one good plan for all values: by a unique key.
PLAN_ONCE = "SET plan_cache_mode = force_generic_plan"


class Statement(NamedTuple):
    """A statement that every session prepares, with the types of its values."""

    name: str
    sql: Any  # of psycopg2.sql, with %s for each value
    types: Sequence[str]

    def prepare(self, connection: Any) -> str:
        """Return the PREPARE."""
        places = tuple(f"${number}" for number in range(1, len(self.types) + 1))
        text = self.sql.as_string(connection) % places
        return f"PREPARE {self.name} ({', '.join(self.types)}) AS {text}"

    def execute(self) -> str:
        """Return the EXECUTE, with %s for each value."""
        return f"EXECUTE {self.name} ({', '.join(['%s'] * len(self.types))})"


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
        statements: Iterable[Statement],
        *,
        timeout: float,
        prepares: bool = True,
        connect: Callable[[float], Any] = connect,
        threads: Executor | None = None,
    ) -> None:
        """Prepare the statements unless a pooler gives each transaction another session.

        `timeout` is in seconds, for a statement and for connecting; 0 is no limit. `connect` is
        called in one of the `threads`, by default of the event loop.
        """
        self.statements, self.prepares, self.connect = statements, prepares, connect
        self.timeout, self.threads = timeout, threads
        self.connection: Any = None
        self.cursor: Any = None
        self.is_waiting = False  # for the answer to a statement

    async def fetch(self, statement: Statement, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement.

        Raises psycopg2.Error and TimeoutError. Then the session is closed, because a late answer
        would be taken for that of the next statement.
        """
        try:
            async with asyncio.timeout(self.timeout or None):
                if deadlines.is_closed(self.connection):
                    self.close()
                if self.connection is None:
                    await self.open()
                sql = statement.execute() if self.prepares else statement.sql
                await self.run(sql, values)
                has_rows = self.cursor.description is not None
                rows: list[tuple[Any, ...]] = self.cursor.fetchall() if has_rows else []
                return rows
        except BaseException:
            self.close()
            raise

    async def open(self) -> None:
        """Connect, and prepare the statements."""
        self.loop = asyncio.get_running_loop()
        self.connection = await self.loop.run_in_executor(self.threads, self.connect, self.timeout)
        # A copy of the file descriptor: psycopg2 may close its own one at any time, and the number
        # could then belong to another socket.
        self.socket = os.dup(self.connection.fileno())
        self.loop.add_reader(self.socket, self.on_readable)
        self.cursor = self.connection.cursor()
        if self.prepares:
            await self.run(PLAN_ONCE)
            for statement in self.statements:
                await self.run(statement.prepare(self.connection))

    async def run(self, sql: Any, values: Sequence[Any] | None = None) -> None:
        """Run a statement, and wait on the event loop until it is answered."""
        # pginterleave: alone - the races explore the same statements with Django's cursor
        self.cursor.execute(sql, values)
        while (state := self.connection.poll()) != extensions.POLL_OK:
            self.ready = self.loop.create_future()
            if state == extensions.POLL_WRITE:
                self.loop.add_writer(self.socket, set_ready, self.ready)
            elif self.is_waiting:
                # The first wait was not enough, and uvloop stops watching after an error.
                self.loop.remove_reader(self.socket)
                self.loop.add_reader(self.socket, self.on_readable)
            self.is_waiting = True
            await self.ready
            if state == extensions.POLL_WRITE:
                self.loop.remove_writer(self.socket)
        self.is_waiting = False

    def on_readable(self) -> None:
        """Resume the statement; without one, close a session that PostgreSQL has closed.

        The socket is watched all the time: starting and stopping takes several system calls.
        """
        if self.is_waiting:
            set_ready(self.ready)
        elif deadlines.is_closed(self.connection):
            self.close()

    def close(self) -> None:
        if self.connection is not None:
            self.loop.remove_reader(self.socket)
            self.loop.remove_writer(self.socket)
            os.close(self.socket)
            self.connection.close()
        self.connection, self.is_waiting = None, False


def set_ready(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
