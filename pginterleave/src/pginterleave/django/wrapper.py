"""Django's database wrapper, with commits, rollbacks and closing as steps."""

import contextlib
import threading
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

from pginterleave.django.cursor import SteppingCursor, SteppingDebugCursor
from pginterleave.session import IN_TRANSACTION, Session


class SteppingWrapper(BaseDatabaseWrapper):
    """Mixed into Django's backend: takes commits, rollbacks and closing step by step."""

    owner: Session
    # None for a copy(), which is a connection of its own: it works, unobserved.
    session: Session | None = None

    def connect(self) -> None:
        if self.session is None:
            super().connect()
            if threading.current_thread() is self.owner.thread:  # not another thread of theirs
                self.owner.copies[self.connection.info.backend_pid] = self.connection
            return
        self.session.raise_if_cancelled()  # a new session would outlive the process
        self.session.connecting = True
        try:
            super().connect()
            self.session.opened(self.connection)
        finally:
            self.session.connecting = False

    def make_cursor(self, cursor: Any) -> CursorWrapper:
        return SteppingCursor(cursor, self) if self.session else super().make_cursor(cursor)

    def make_debug_cursor(self, cursor: Any) -> CursorDebugWrapper:
        if self.session:
            return SteppingDebugCursor(cursor, self)
        return super().make_debug_cursor(cursor)

    def _step(self, kind: str) -> contextlib.AbstractContextManager[object]:
        if self.session is None or self.connection is None or self.session.connecting:
            return contextlib.nullcontext()
        if self.connection.info.transaction_status not in IN_TRANSACTION:
            return contextlib.nullcontext()  # there is nothing to end, and nothing is sent
        return self.session.step(kind, kind)

    def _commit(self) -> None:
        with self._step("COMMIT"):
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        with self._step("ROLLBACK"):
            super()._rollback()  # type: ignore[misc]

    def _close(self) -> None:
        session, connection = self.session, self.connection
        if session is None or connection is None or connection.closed or session.connecting:
            super()._close()  # type: ignore[misc]
        else:
            session.close_as_a_step(super()._close)  # type: ignore[misc]
