"""The session of a process, with psycopg or psycopg2: the base class of DjangoSession.

It gives the code under test a connection that calls `take_statement` for each statement.
The driver's connection is reset to its first state after each schedule, and kept for the next one.
"""

import abc
import contextlib
import select
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from pginterleave.options import Options
from pginterleave.processes import queries
from pginterleave.processes.calling_line import format_calling_place
from pginterleave.sql import statements
from pginterleave.sql.pg_catalog import Catalogue

IN_TRANSACTION = (2, 3)  # libpq's PQTRANS_INTRANS and PQTRANS_INERROR
READ_COMMITTED = (None, "READ_COMMITTED", "READ_UNCOMMITTED", 0, 1, 4)  # see _find_level()
CONNECTION_SETTINGS = ("autocommit", "isolation_level", "readonly", "read_only", "deferrable")
MAX_ROWS_KEPT = 10  # of the result of a step, for the timeline


def keep_rows(step: SimpleNamespace | None, cursor: Any, rows: Sequence[Any]) -> None:
    """Record the first rows fetched of a step's result; before any statement, the step is None."""
    if step is None or not rows:
        return
    kept = getattr(step, "rows", ())  # none at the first fetch
    if not kept:
        step.columns = tuple(column[0] for column in cursor.description or ())
    step.rows = (*kept, *map(_list_values, rows[: MAX_ROWS_KEPT - len(kept)]))


def _list_values(row: Any) -> tuple[Any, ...]:
    """Return the values of a row, which a row factory of the driver may have made."""
    if isinstance(row, Mapping):
        return tuple(row.values())
    return tuple(row) if isinstance(row, (tuple, list)) else (row,)


class Owner(Protocol):
    """What a session asks of its process: see process.Process."""

    number: int
    thread: threading.Thread
    step_session: "ProcessSession"

    def take_step(
        self, kind: str, sql: str, params: Any
    ) -> contextlib.AbstractContextManager[SimpleNamespace]: ...

    def raise_if_cancelled(self) -> None: ...


class Caller(Protocol):
    """What a session asks of the caller's connection: see control.Control."""

    options: Options
    catalogue: Catalogue

    def wait_until_closed(self, *pids: int) -> None: ...


class ProcessSession(abc.ABC):
    """The session of one process with PostgreSQL; it is used in the thread of the process."""

    def __init__(self, process: Owner, control: Caller) -> None:
        self.process = process
        self.number = process.number
        self.catalogue = control.catalogue
        self.wait_until_closed = control.wait_until_closed
        self.pid = 0
        self.pids: set[int] = set()  # all pids that it has had
        self.database = ""  # the alias of another database than the explored one
        self.other_sessions: list[ProcessSession] = []  # of the same process with other databases
        self.copies: dict[int, Any] = {}  # the driver's connections of connection.copy(), by pid
        self.connecting = False
        self.serializable = False  # whether its transactions are SERIALIZABLE by default
        self.keeps_snapshots = False  # whether a snapshot may serve a whole transaction
        self.checks_deadlocks_at_once = False  # whether the role may set deadlock_timeout
        self.commit_is_a_step = False  # whether the COMMIT of its next statement is another step
        self._kept: Any = None  # the driver's connection, for the next schedule
        self._may_hold_locks = False  # whether it may have taken advisory locks
        self._timeout_is_set = False  # whether deadlock_timeout may have been changed
        self._needs_new_connection = False  # whether it has sent a statement that no reset undoes
        self._first_settings: dict[str, Any] = {}
        self._reset_script = ""
        self._has_sent_begin = False  # whether the code has sent a BEGIN alone, as no step
        self._allows_direct_use = False  # see allow_direct_use()

    @abc.abstractmethod
    def get_connection(self) -> Any:
        """Return the driver's connection that the code under test uses now, or None."""

    @abc.abstractmethod
    def use_connection(self, kept: Any) -> None:
        """Give the code under test a connection over the driver's one; if None, over a new one."""

    def close_others(self) -> None:  # noqa: B027 - there may be none
        """Close the other connections that the thread has opened, so that they open again."""

    @abc.abstractmethod
    def send_directly(self, sql: str) -> None:
        """Send SQL by the driver's connection: the connection of the code does not notice it."""

    @contextlib.contextmanager
    def take_statement(self, sql: str, params: Any, *, single: bool = True) -> Iterator[Any]:
        """Take a statement as a step, and outside a transaction its COMMIT as another.

        `single` says that `sql` is one statement and does not outlive its transaction.
        """
        catalogue = self.catalogue
        autocommits = not self.in_transaction()
        # Reduction leaves out orders in which transactions begin, and a BEGIN alone is no step.
        unordered = self.has_begun() and (catalogue.reduced or self._has_sent_begin)
        catalogue.note_statement(sql, params, autocommits=autocommits, unordered=unordered)
        commits = autocommits and self.get_connection() is not None
        can_be_a_step = single and statements.has_separate_commit(sql, catalogue.special_names)
        separates_commit = commits and can_be_a_step
        self.commit_is_a_step = separates_commit
        if commits and not separates_commit:
            catalogue.note_unseen_commit(sql, single=single)
        transaction = self._begin_transaction() if separates_commit else contextlib.nullcontext()
        with self.take_step(statements.find_kind(sql), sql, params) as step, transaction:
            yield step
        if separates_commit:
            with self.take_step("COMMIT", "COMMIT"):
                self.send_directly("COMMIT")
        catalogue.note_locks(sql, getattr(step, "rowcount", -1), self.number)  # -1: unknown

    @contextlib.contextmanager
    def take_step(self, kind: str, sql: str, params: Any = None) -> Iterator[SimpleNamespace]:
        """Enter to send one step, once the scheduler lets it; `as` gives the step's record."""
        # end() has to undo these before another schedule uses the connection.
        self._may_hold_locks |= "advisory_lock" in sql.lower()
        self._needs_new_connection |= bool(statements.OUTLIVES_RESET.search(sql))
        self.process.step_session = self  # it may have one for each database
        with self.process.take_step(kind, sql, params) as step, self.allow_direct_use():
            yield step

    def send_begin(self, sql: str) -> contextlib.AbstractContextManager[None]:
        """Enter to send a BEGIN, which is not a step."""
        self.serializable |= "SERIALIZABLE" in sql.upper()
        self.keeps_snapshots |= "ISOLATION" in sql.upper()
        self._has_sent_begin |= not (self._allows_direct_use or self.connecting)
        return self.allow_direct_use()

    @contextlib.contextmanager
    def allow_direct_use(self) -> Iterator[None]:
        """Enter to use the driver's connection without note_direct_use() noting that."""
        before = self._allows_direct_use
        self._allows_direct_use = True
        try:
            yield
        finally:
            self._allows_direct_use = before

    def note_direct_use(self) -> None:
        """Note a use of the driver's connection by the code under test: it is not observed."""
        is_of_process = threading.current_thread() is self.process.thread
        if self.connecting or (self._allows_direct_use and is_of_process):
            return
        place = format_calling_place()
        self.catalogue.note_unobserved(f"the driver's connection{place}")

    def _find_open_connection(self) -> Any:
        connection = self.get_connection()
        return None if connection is None or connection.closed else connection

    def has_begun(self) -> bool:
        connection = self._find_open_connection()
        return bool(connection) and connection.info.transaction_status in IN_TRANSACTION

    def in_transaction(self) -> bool:
        """Whether the next statement takes effect only with a later COMMIT."""
        connection = self._find_open_connection()
        return bool(connection) and (not connection.autocommit or self.has_begun())

    def set_deadlock_timeout(self, seconds: float, kind: str) -> None:
        """Set after how many seconds of a wait a step looks for a deadlock; 0: the usual 1 ms."""
        connection = self._find_open_connection()
        is_as_usual = not seconds and not self._timeout_is_set
        if is_as_usual or not connection or kind == "CLOSE":  # CLOSE waits for no lock
            return
        _, in_failed_transaction = IN_TRANSACTION
        if connection.info.transaction_status != in_failed_transaction:
            self._timeout_is_set = True  # also if it is reset here: a ROLLBACK may undo that
            self.send_directly(f"SET deadlock_timeout = {int(1000 * seconds) or 1}")

    def _find_level(self) -> str | int | None:
        """Return the level that the driver sets: a name in psycopg 3, its number in psycopg2."""
        level = getattr(self.get_connection(), "isolation_level", None)
        return getattr(level, "name", level)

    def is_serializable(self) -> bool:
        return self.serializable or self._find_level() in ("SERIALIZABLE", 3)  # 3: psycopg2

    def is_read_committed(self) -> bool:
        """Whether each of its statements takes a new snapshot by default."""
        return not self.keeps_snapshots and self._find_level() in READ_COMMITTED

    def open(self) -> None:
        """Begin a schedule, on the kept connection if that is still open."""
        with self.allow_direct_use():
            if self._kept is not None:
                readable, _, _ = select.select([self._kept], [], [], 0)
                if readable:  # an unexpected message: the session was terminated
                    self._kept.close()
                    self._kept = None
            self.use_connection(self._kept)
        for other in self.other_sessions:
            other.open()

    def set_up_connection(self, connection: Any) -> None:
        """Set up a driver's connection that has just been opened."""
        self._kept = connection
        self.pid = connection.info.backend_pid
        self.pids.add(self.pid)
        names = [name for name in CONNECTION_SETTINGS if hasattr(connection, name)]
        self._first_settings = {name: getattr(connection, name) for name in names}
        with connection.cursor() as cursor:
            # A stop of the process may take longer than the timeouts for idle transactions.
            cursor.execute(
                f"SET application_name = 'interleave process {self.number}';"
                "SET synchronous_commit = off; SET idle_in_transaction_session_timeout = 0"
            )
            cursor.execute(queries.NO_TIMEOUTS)
            self.checks_deadlocks_at_once = False
            with contextlib.suppress(connection.Error):
                cursor.execute("SET deadlock_timeout = '1ms'")
                self.checks_deadlocks_at_once = True
            cursor.execute("SHOW default_transaction_isolation")
            (level,) = cursor.fetchone()
            self.serializable = level == "serializable"
            self.keeps_snapshots = level in ("serializable", "repeatable read")
            cursor.execute(queries.RESET_SCRIPT)
            (self._reset_script,) = cursor.fetchone()

    @contextlib.contextmanager
    def _begin_transaction(self) -> Iterator[None]:
        """Begin a transaction for one statement; end it when the statement fails."""
        self.send_directly("BEGIN")
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is reported
                self.send_directly("ROLLBACK")
            raise

    def leave(self) -> None:
        """Close all connections, whatever state they are in, when the process ends."""
        for other in self.other_sessions:
            other.leave()
        for connection in (self._kept, self.get_connection(), *self.copies.values()):
            with contextlib.suppress(Exception), self.allow_direct_use():
                connection.close()
        with contextlib.suppress(Exception), self.allow_direct_use():
            self.close_others()

    def end(self) -> None:
        """Reset the session to its first state, as if the process had ended."""
        for other in self.other_sessions:
            other.end()
        self._kept = None
        with self.allow_direct_use():
            self.close_others()
            for copy in self.copies.values():
                copy.close()
            if self.copies:
                self.wait_until_closed(*self.copies)
                self.copies.clear()
            if connection := self._find_open_connection():
                try:
                    self._reset(connection)
                except connection.Error:
                    connection.close()

    def _reset(self, connection: Any) -> None:
        """Undo what the code has done to the driver's connection, and keep it if that is enough."""
        if self.has_begun():
            with self.take_step("ROLLBACK", "ROLLBACK"):
                connection.rollback()
                if self.has_begun():  # psycopg2 sends no ROLLBACK in autocommit
                    self.send_directly("ROLLBACK")
        for name, value in self._first_settings.items():
            if getattr(connection, name) != value:
                setattr(connection, name, value)
        with connection.cursor() as cursor:
            holds_locks = False
            if self._may_hold_locks:
                cursor.execute(queries.ADVISORY_LOCKS)
                holds_locks = bool(cursor.fetchone())
            # The release of advisory locks is a step: a process may wait for them.
            with self.take_step("CLOSE", "CLOSE") if holds_locks else contextlib.nullcontext():
                cursor.execute(self._reset_script)
        if self._needs_new_connection:
            connection.close()
            self.wait_until_closed(self.pid)
        else:
            self._kept = connection
        self._may_hold_locks = self._timeout_is_set = self._needs_new_connection = False
