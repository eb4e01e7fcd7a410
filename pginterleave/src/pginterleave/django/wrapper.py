"""Django's database wrapper, with commits, rollbacks and closing as steps.

Django has no public hook for these: `_commit`, `_rollback` and `_close` are private.
"""

import contextlib
import threading
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.psycopg_any import is_psycopg3
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

from pginterleave.django import driver
from pginterleave.django.cursor import SteppingCursor, SteppingDebugCursor
from pginterleave.session import IN_TRANSACTION, Session


class SteppingWrapper(BaseDatabaseWrapper):
    """Mixed into Django's backend: takes commits, rollbacks and closing step by step."""

    Database: Any  # the driver
    owner: Session
    # None for a copy(): a second connection, which works and is not observed
    session: Session | None = None

    def connect(self) -> None:
        if self.session is None:
            super().connect()
            if threading.current_thread() is self.owner.thread:  # not another thread of theirs
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
            connection.__class__ = driver.psycopg_class(type(connection), self.session)
            return connection
        base = conn_params.get("connection_factory") or self.Database.extensions.connection
        factory = driver.psycopg2_class(base, self.session)
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
            return self.session.sending()  # there is nothing to end, and nothing is sent
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
            session.close_as_a_step(close)
