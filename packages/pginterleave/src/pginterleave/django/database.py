"""The caller's connection and the sessions of the processes, in Django."""

import contextlib
import threading
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.psycopg_any import is_psycopg3
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

from pginterleave.django.cursor import (
    SteppingCursor,
    SteppingDebugCursor,
    psycopg2_class,
    psycopg_class,
)
from pginterleave.explorer_errors import CannotExplore
from pginterleave.processes.session import IN_TRANSACTION, Session

ISOLATION_LEVELS = ("read committed", "repeatable read", "serializable")


class DjangoDatabase:
    """The database of an alias in DATABASES, which must be PostgreSQL."""

    Error: type[Exception] = Error

    def __init__(self, alias: str, isolation_level: str = "") -> None:
        self.name = alias
        self.isolation_level = isolation_level.lower()
        if self.isolation_level not in ("", *ISOLATION_LEVELS):
            known = ", ".join(ISOLATION_LEVELS)
            raise CannotExplore(f"isolation_level is {isolation_level!r}, and not one of {known}.")
        self.caller: BaseDatabaseWrapper = connections[alias]
        if self.caller.vendor != "postgresql":
            raise CannotExplore(
                f"The database {alias!r} is {self.caller.vendor}; only PostgreSQL can be explored."
            )

    def identity(self) -> object:
        return self.caller.connection

    def in_transaction(self) -> bool:
        if self.caller.in_atomic_block or not self.caller.get_autocommit():
            return True
        connection = self.caller.connection  # a BEGIN may have been sent past Django
        return connection is not None and connection.info.transaction_status in IN_TRANSACTION

    def ask(self, sql: str, params: dict[str, Any]) -> list[Any]:
        """Run a query past Django's cursors, which would log it."""
        self.caller.ensure_connection()
        with self.caller.wrap_database_errors, self.caller.connection.cursor() as cursor:
            cursor.execute(sql, params or None)
            return cursor.fetchall() if cursor.description else []

    def new_session(self, *args: Any, **options: Any) -> Session:
        return DjangoSession(self.caller, self.isolation_level, *args, **options)


class DjangoSession(Session):
    """A process's session: each schedule has a new Django connection over the driver's."""

    def __init__(
        self, caller: BaseDatabaseWrapper, isolation_level: str, *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        given = {k: v for k, v in caller.settings_dict["OPTIONS"].items() if k != "pool"}
        if isolation_level:  # of transactions that Django begins, and of single statements
            given.pop("isolation_level", None)
            level = isolation_level.replace(" ", r"\ ")
            before = given.get("options", "")
            given["options"] = f"{before} -c default_transaction_isolation={level}".strip()
        kept = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False, "OPTIONS": given}
        self._settings = caller.settings_dict | kept
        self._alias = caller.alias
        self._backend: Any = type("Stepping", (SteppingWrapper, type(caller)), {"owner": self})
        self._wrapper: Any = None

    def current(self) -> Any:
        return self._wrapper.connection

    def use(self, kept: Any) -> None:
        """Put a new connection into Django's `connections`; open a session if kept is None."""
        before, self._wrapper = self._wrapper, self._backend(self._settings, self._alias)
        self._wrapper.session = self
        connections[self._alias] = self._wrapper
        if kept is None:
            self._wrapper.ensure_connection()
        else:
            self._wrapper.connection = kept
            self._wrapper.autocommit = kept.autocommit
            self._wrapper.isolation_level = before.isolation_level

    def close_others(self) -> None:
        """Close the connections to other databases, and let Django make new ones."""
        for wrapper in connections.all(initialized_only=True):
            if wrapper is not self._wrapper:
                wrapper.close()
                del connections[wrapper.alias]

    def control(self, sql: str) -> None:
        connection = self._wrapper.connection
        with self.sending(), self._wrapper.wrap_database_errors, connection.cursor() as cursor:
            cursor.execute(sql)


class SteppingWrapper(BaseDatabaseWrapper):
    """Mixed into Django's backend: takes each commit, rollback and closing as a step.

    Django has no public hook for these: `_commit`, `_rollback` and `_close` are private.
    """

    Database: Any  # the driver
    owner: Session
    # None for a copy() of the connection, whose statements are not observed
    session: Session | None = None

    def connect(self) -> None:
        if self.session is None:
            super().connect()
            if threading.current_thread() is self.owner.thread:  # not a thread that it started
                self.owner.copies[self.connection.info.backend_pid] = self.connection
            return
        self.session.process.raise_if_cancelled()  # a new session would outlive the process
        self.session.connecting = True
        try:
            super().connect()
            self.session.opened(self.connection)
        finally:
            self.session.connecting = False

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self.session is None:
            return super().get_new_connection(conn_params)
        if is_psycopg3:
            connection = super().get_new_connection(conn_params)
            connection.__class__ = psycopg_class(type(connection), self.session)
            return connection
        base = conn_params.get("connection_factory") or self.Database.extensions.connection
        factory = psycopg2_class(base, self.session)
        return super().get_new_connection({**conn_params, "connection_factory": factory})

    def is_usable(self) -> bool:
        with self.session.sending() if self.session else contextlib.nullcontext():
            return super().is_usable()

    def make_cursor(self, cursor: Any) -> CursorWrapper:
        return SteppingCursor(cursor, self) if self.session else super().make_cursor(cursor)

    def make_debug_cursor(self, cursor: Any) -> CursorDebugWrapper:
        if self.session:
            return SteppingDebugCursor(cursor, self)
        return super().make_debug_cursor(cursor)

    def _step(self, kind: str) -> contextlib.AbstractContextManager[object]:
        if self.session is None:
            return contextlib.nullcontext()
        if self.connection is None or self.session.connecting:
            return self.session.sending()
        if self.connection.info.transaction_status not in IN_TRANSACTION:
            return self.session.sending()  # there is nothing to end, so nothing is sent
        if not is_psycopg3 and self.connection.autocommit:
            return self.session.sending()  # psycopg2 sends nothing, even after a BEGIN
        return self.session.step(kind, kind)

    def _commit(self) -> None:
        with self._step("COMMIT"):
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        with self._step("ROLLBACK"):
            super()._rollback()  # type: ignore[misc]

    def _close(self) -> None:
        session, connection = self.session, self.connection
        close = super()._close  # type: ignore[misc]
        if session is None:
            close()
        elif connection is None or connection.closed or session.connecting:
            with session.sending():
                close()
        else:
            with session.step("CLOSE", "CLOSE"):  # until PostgreSQL has released the locks
                close()
                session.wait_until_closed(session.pid)
