"""The adapter for plain connections of psycopg 3, without Django.

`docs/without-django.md` shows how to use it, and how to use it with SQLAlchemy.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
from psycopg.rows import RowFactory, tuple_row

from pginterleave.explorer_errors import CannotExplore
from pginterleave.processes.session import IN_TRANSACTION, Session, keep_rows
from pginterleave.sql import statements


class PsycopgDatabase:
    """A database, given by the arguments of `psycopg.connect`, and the connections to it."""

    Error: type[Exception] = psycopg.Error

    def __init__(self, conninfo: str = "", **options: Any) -> None:
        self.conninfo = conninfo
        self.options = options
        parameters = psycopg.conninfo.conninfo_to_dict(conninfo, **options)
        self.name = parameters.get("dbname") or "default"
        self._own_connection: psycopg.Connection[Any] | None = None  # of ask()
        self._plain_connections: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self._exploring_thread: threading.Thread | None = None
        self._local = threading.local()  # its attribute `session` is that of the thread's process

    def connect(
        self, *, autocommit: bool = False, row_factory: RowFactory[Any] = tuple_row
    ) -> "psycopg.Connection[Any]":
        """Connect: in a process of a race, the connection's statements are steps.

        Raises CannotExplore in a process that already has one, and in a thread that it started.
        """
        session: PsycopgSession | None = getattr(self._local, "session", None)
        if session:
            return session.connect(autocommit=autocommit, row_factory=row_factory)
        if self._exploring_thread and self._exploring_thread is not threading.current_thread():
            raise CannotExplore("A process connects in another thread, which is not observed.")
        connection = self._connect(autocommit=autocommit, row_factory=row_factory)
        self._plain_connections.add(connection)
        return connection

    def close(self) -> None:
        """Close the connection of ask()."""
        if self._own_connection is not None:
            self._own_connection.close()

    def get_caller_connection(self) -> object:
        return self._own_connection

    def ask(self, sql: str, params: dict[str, Any]) -> list[Any]:
        if self._own_connection is None or self._own_connection.closed:
            self._own_connection = self._connect(autocommit=True)
        cursor = self._own_connection.execute(sql, params or None)  # None: a % stands for itself
        return cursor.fetchall() if cursor.description else []

    def other_databases(self) -> dict[str, Callable[..., list[Any]]]:
        return {}

    def in_transaction(self) -> bool:
        """Whether one of the connections that no process has opened is in a transaction."""
        infos = [connection.info for connection in self._plain_connections]
        return any(info.transaction_status in IN_TRANSACTION for info in infos)

    def new_session(self, process: Any, control: Any) -> Session:
        # connect() refuses other threads than this one and those of the processes.
        self._exploring_thread = threading.current_thread()
        return PsycopgSession(self, process, control)

    def _connect(self, **options: Any) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.conninfo, **{**self.options, **options})


class PsycopgSession(Session):
    """A process's session: the code opens and closes connections over the driver's one."""

    def __init__(self, database: PsycopgDatabase, process: Any, control: Any) -> None:
        super().__init__(process, control)
        self._database = database

    def get_connection(self) -> Any:
        return self._driver_connection

    def use_connection(self, kept: Any) -> None:
        """Connect if `kept` is None, and let connect() use this session in the present thread."""
        self._database._local.session = self
        if kept is None:
            self.process.raise_if_cancelled()
            self.connecting = True
            try:
                kept = self._database._connect(autocommit=True)
                self.set_up_connection(kept)
            finally:
                self.connecting = False
        self._driver_connection = kept

    def connect(self, *, autocommit: bool, row_factory: RowFactory[Any]) -> "PsycopgConnection":
        """Return a new connection for the code under test, which must have no other one open."""
        if self._code_connection is not None:
            raise CannotExplore(
                f"Process {self.number} opens a second connection while its first one is open; "
                "with SQLAlchemy, use poolclass=NullPool and one Session at a time."
            )
        if self._driver_connection.closed:
            self.use_connection(None)
        connection = PsycopgConnection(self._driver_connection.pgconn, row_factory)
        connection.session = self
        connection.cursor_factory = PsycopgCursor
        connection._autocommit = autocommit
        self._code_connection = connection
        return connection

    def in_transaction(self) -> bool:
        connection = self._code_connection  # without autocommit it sends a BEGIN by itself
        return bool(connection and not connection.autocommit) or super().in_transaction()

    def send_directly(self, sql: str) -> None:
        self._driver_connection.execute(sql)

    def end(self) -> None:
        """Close the connection of the code, and reset the session to its first state."""
        if self._code_connection:
            self._code_connection.is_closed = True
            self._code_connection = None
        super().end()


class PsycopgConnection(psycopg.Connection[Any]):
    """The connection of the code under test: commits, rollbacks and closing are steps."""

    session: PsycopgSession
    is_closed = False

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, or its process has ended."""
        return self.is_closed or super().closed

    def close(self) -> None:
        """Reset the session as if it had ended: it rolls back and releases all locks."""
        if not self.is_closed:
            self.session.end()

    def get_session(self) -> PsycopgSession:
        """Return the session. Raises an error if it is closed, or of another thread's process."""
        if self.is_closed:
            raise psycopg.OperationalError(
                "the connection is closed, perhaps with an earlier schedule: use no pool"
            )
        if threading.current_thread() is not self.session.process.thread:
            raise CannotExplore(
                f"A connection of process {self.session.number} is used in another thread: with "
                "SQLAlchemy, use poolclass=NullPool."
            )
        return self.session

    def cursor(self, name: str = "", *args: Any, **options: Any) -> Any:
        self.get_session()
        if name:
            raise CannotExplore("A server-side cursor cannot be observed.")
        return super().cursor(*args, **options)

    def pipeline(self) -> Any:
        """Refuse: statements that are sent together cannot be ordered."""
        raise CannotExplore("A pipeline cannot be observed.")

    def _start_query(self) -> Generator[Any, Any, Any]:
        """Note that a cursor of another class, such as psycopg.ClientCursor, sends a statement."""
        self.session.note_direct_use()
        yield from super()._start_query()

    def _exec_command(self, command: Any, *args: Any) -> Generator[Any, Any, Any]:
        """Send a BEGIN of the connection; or take its COMMIT, ROLLBACK or SAVEPOINT as a step."""
        session = self.get_session()
        sql = command.decode() if isinstance(command, bytes) else str(command)
        if statements.is_begin_alone(sql):
            with session.send_begin(sql):
                return (yield from super()._exec_command(command, *args))
        with session.take_step(statements.find_kind(sql), sql):
            return (yield from super()._exec_command(command, *args))


class PsycopgCursor(psycopg.Cursor[Any]):
    """Takes each statement as a step, and records its result."""

    _step: SimpleNamespace | None = None  # of its last statement

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        return self._send(super().execute, query, params, single=True, **options)

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        """Send all statements as one step; the result says that they are not interleaved."""
        self._get_session().catalogue.note_unchecked("what executemany() sends is one step")
        self._send(super().executemany, query, params_seq, single=False, **options)

    def _send(
        self, send: Callable[..., Any], query: Any, params: Any, *, single: bool, **options: Any
    ) -> Any:
        """Send by a method of psycopg's cursor; `single` says that it sends one statement."""
        session = self._get_session()
        sql = self._write_sql(query)
        if statements.is_begin_alone(sql):
            with session.send_begin(sql):
                return send(query, params, **options)
        with session.take_statement(sql, params, single=single) as self._step:
            result = send(query, params, **options)
            self._step.rowcount = self.rowcount
        return result

    @contextlib.contextmanager
    def copy(self, statement: Any, *args: Any, **options: Any) -> Iterator[Any]:
        """Take a COPY as a step, which ends when all rows are sent or received."""
        step = self._get_session().take_statement(self._write_sql(statement), None, single=False)
        with step, super().copy(statement, *args, **options) as copy:
            yield copy

    def _get_session(self) -> PsycopgSession:
        connection: Any = self.connection
        session: PsycopgSession = connection.get_session()
        return session

    def _write_sql(self, query: Any) -> str:
        text = query.as_string(self) if hasattr(query, "as_string") else query
        return text.decode() if isinstance(text, bytes) else str(text)

    def stream(self, *args: Any, **options: Any) -> Any:
        """Refuse: rows that arrive one by one cannot be observed."""
        raise CannotExplore("cursor.stream() cannot be observed.")

    def fetchone(self) -> Any:
        row = super().fetchone()
        self._keep_rows([] if row is None else [row])
        return row

    def fetchmany(self, size: int = 0) -> list[Any]:  # 0: as many as cursor.arraysize
        return self._keep_rows(super().fetchmany(size))

    def fetchall(self) -> list[Any]:
        return self._keep_rows(super().fetchall())

    def __iter__(self) -> Iterator[Any]:
        while rows := self.fetchmany(1):
            yield from rows

    def _keep_rows(self, rows: list[Any]) -> list[Any]:
        keep_rows(self._step, self, rows)
        return rows
