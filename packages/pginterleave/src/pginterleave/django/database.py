"""The caller's connection and the sessions of the processes, in Django."""

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.psycopg_any import is_psycopg3
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

from pginterleave.django.cursor import (
    SteppingCursor,
    SteppingDebugCursor,
    make_psycopg2_class,
    make_psycopg_class,
)
from pginterleave.explorer_errors import CannotExplore
from pginterleave.processes.session import IN_TRANSACTION, Caller, Owner, ProcessSession

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

    def get_caller_connection(self) -> object:
        return self.caller.connection

    def in_transaction(self) -> bool:
        if self.caller.in_atomic_block or not self.caller.get_autocommit():
            return True
        connection = self.caller.connection  # a BEGIN may have been sent past Django
        return connection is not None and connection.info.transaction_status in IN_TRANSACTION

    def ask(self, sql: str, params: dict[str, Any]) -> list[Any]:
        """Run a query on the caller's connection, and return its rows."""
        return _query(self.caller, sql, params)

    def other_databases(self) -> dict[str, Callable[..., list[Any]]]:
        """Return the function `ask` of each other database, by its alias."""
        address = _get_address(self.caller)
        wrappers = _list_other_databases(self.caller)
        others = [wrapper for wrapper in wrappers if _get_address(wrapper) != address]
        return {wrapper.alias: partial(_query, wrapper) for wrapper in others}

    def new_session(self, process: Owner, control: Caller) -> ProcessSession:
        """Return a process's session, which has a session with each other database."""
        session = DjangoSession(self.caller, self.isolation_level, process, control)
        for wrapper in _list_other_databases(self.caller):
            session.other_sessions.append(OtherSession(wrapper, "", process, control))
        return session


def _query(wrapper: BaseDatabaseWrapper, sql: str, params: dict[str, Any]) -> list[Any]:
    """Run SQL past Django's cursors, which would log it; return the rows of the last statement."""
    wrapper.ensure_connection()
    with wrapper.wrap_database_errors, wrapper.connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        while is_psycopg3 and cursor.nextset():
            pass
        return cursor.fetchall() if cursor.description else []


def _get_address(wrapper: BaseDatabaseWrapper) -> list[object]:
    """Return the host, port and name of a database: two aliases may name the same."""
    return [wrapper.settings_dict.get(name) for name in ("HOST", "PORT", "NAME")]


def _list_other_databases(caller: BaseDatabaseWrapper) -> list[BaseDatabaseWrapper]:
    """Return the connections to the other PostgreSQL databases in Django's settings."""
    wrappers = [connections[alias] for alias in connections if alias != caller.alias]
    return [wrapper for wrapper in wrappers if wrapper.vendor == "postgresql"]


class DjangoSession(ProcessSession):
    """A process's session: each schedule has a new Django connection over the driver's."""

    def __init__(self, caller: BaseDatabaseWrapper, isolation_level: str, *args: Any) -> None:
        super().__init__(*args)
        options = {**caller.settings_dict["OPTIONS"]}
        options.pop("pool", None)  # each process has a connection of its own
        if isolation_level:  # of transactions that Django begins, and of single statements
            options.pop("isolation_level", None)
            level = isolation_level.replace(" ", r"\ ")  # a space in an option of libpq
            of_libpq = options.get("options", "")
            options["options"] = f"{of_libpq} -c default_transaction_isolation={level}".strip()
        changed = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False, "OPTIONS": options}
        self._settings = caller.settings_dict | changed
        self._alias = caller.alias
        bases = (SteppingWrapper, type(caller))
        self._wrapper_class: Any = type("Stepping", bases, {"owner": self})
        self._wrapper: Any = None  # Django's connection

    def get_connection(self) -> Any:
        """Return the driver's connection, or None."""
        return self._wrapper and self._wrapper.connection

    def use_connection(self, kept: Any) -> None:
        """Put a new connection into Django's `connections`, over the driver's if that was kept."""
        last_wrapper = self._wrapper
        self._wrapper = self._wrapper_class(self._settings, self._alias)
        self._wrapper.session = self
        connections[self._alias] = self._wrapper
        if kept is not None:
            self._wrapper.connection = kept
            self._wrapper.autocommit = kept.autocommit
            self._wrapper.isolation_level = last_wrapper.isolation_level
        elif not self.database:  # another database connects when it is used
            self._wrapper.ensure_connection()

    def close_others(self) -> None:
        """Close the connections to databases that are not PostgreSQL, so that they open again."""
        for wrapper in connections.all(initialized_only=True):
            if not isinstance(wrapper, SteppingWrapper):  # which every PostgreSQL database has
                wrapper.close()
                del connections[wrapper.alias]

    def send_directly(self, sql: str) -> None:
        """Send a statement past Django, as no step."""
        wrapper = self._wrapper
        connection = wrapper.connection
        with self.allow_direct_use(), wrapper.wrap_database_errors, connection.cursor() as cursor:
            cursor.execute(sql)


class OtherSession(DjangoSession):
    """A process's session with another database, which connects when a process uses it."""

    def __init__(self, caller: BaseDatabaseWrapper, *args: Any) -> None:
        super().__init__(caller, *args)
        self.database = caller.alias

    def set_up_connection(self, connection: Any) -> None:
        """Set up a new connection of the driver; the result will say what is not explored there."""
        super().set_up_connection(connection)
        unknown = f"the functions, triggers and lock orders of the database {self.database!r}"
        self.catalogue.note_unchecked(unknown)


class SteppingWrapper(BaseDatabaseWrapper):
    """Mixed into Django's backend: takes each commit, rollback and closing as a step.

    Django has no public hook for these: `_commit`, `_rollback` and `_close` are private.
    """

    Database: Any  # the driver
    owner: ProcessSession  # the session of the process, also for a copy()
    session: ProcessSession | None = None  # None for a copy(), whose statements are not observed

    def connect(self) -> None:
        """Connect, and set up the connection; that of a copy() is only remembered, to be closed."""
        if self.session is None:
            super().connect()
            if threading.current_thread() is self.owner.process.thread:  # not one that it started
                self.owner.copies[self.connection.info.backend_pid] = self.connection
            return
        self.session.process.raise_if_cancelled()  # a new session would outlive the process
        self.session.connecting = True
        try:
            super().connect()
            self.session.set_up_connection(self.connection)
        finally:
            self.session.connecting = False

    def _allow_direct_use(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which to use the driver's connection, as no step."""
        return self.session.allow_direct_use() if self.session else contextlib.nullcontext()

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self.session is None:
            return super().get_new_connection(conn_params)
        if is_psycopg3:
            connection = super().get_new_connection(conn_params)
            connection.__class__ = make_psycopg_class(type(connection), self.session)
            return connection
        base = conn_params.get("connection_factory") or self.Database.extensions.connection
        factory = make_psycopg2_class(base, self.session)
        return super().get_new_connection({**conn_params, "connection_factory": factory})

    def is_usable(self) -> bool:
        with self._allow_direct_use():
            return super().is_usable()

    def make_cursor(self, cursor: Any) -> CursorWrapper:
        return SteppingCursor(cursor, self) if self.session else super().make_cursor(cursor)

    def make_debug_cursor(self, cursor: Any) -> CursorDebugWrapper:
        if self.session:
            return SteppingDebugCursor(cursor, self)
        return super().make_debug_cursor(cursor)

    def _take_end(self, sql: str) -> contextlib.AbstractContextManager[object]:
        """Return the context in which to end a transaction: a step, if the driver sends the SQL."""
        connection = self.connection
        if connection is None or self.session is None or self.session.connecting:
            return self._allow_direct_use()
        in_transaction = connection.info.transaction_status in IN_TRANSACTION
        # In autocommit, psycopg2 does not end a transaction that a BEGIN of the code has begun.
        is_sent = in_transaction and (is_psycopg3 or not connection.autocommit)
        return self.session.take_step(sql, sql) if is_sent else self._allow_direct_use()

    def _commit(self) -> None:
        with self._take_end("COMMIT"):
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        with self._take_end("ROLLBACK"):
            super()._rollback()  # type: ignore[misc]

    def _close(self) -> None:
        session = self.session
        is_open = self.connection is not None and not self.connection.closed
        if session and is_open and not session.connecting:
            with session.take_step("CLOSE", "CLOSE"):  # until PostgreSQL has released the locks
                super()._close()  # type: ignore[misc]
                session.wait_until_closed(session.pid)
        else:
            with self._allow_direct_use():
                super()._close()  # type: ignore[misc]
