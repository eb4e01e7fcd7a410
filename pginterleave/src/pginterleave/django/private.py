"""All that is private of Django: where its cursors and connections send what is a step.

Stable are the cursors' fetches, `make_cursor()`, and `connections`. `connection.execute_wrapper()`
would be, too, and is called outside of the wrappers that the code under test installs, which may
send something else or nothing. For a COMMIT, a ROLLBACK and closing there is no public hook.
"""

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

Send = Callable[..., Any]


class SendingCursor(CursorWrapper):
    """Hands what it would send to `sends()`, with the function that sends it."""

    def sends(self, send: Send, sql: Any, params: Any, *, many: bool) -> Any:
        """Send a statement, of `many` for each of several rows of parameters."""
        raise NotImplementedError

    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        return self.sends(super()._execute, sql, params, many=False)  # type: ignore[misc]

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        return self.sends(super()._executemany, sql, param_list, many=True)  # type: ignore[misc]

    def driver(self, name: str) -> Any:
        """Return what the driver's cursor has under that name, with Django's errors around it."""
        return CursorWrapper.__getattr__(self, name)


class EndingWrapper(BaseDatabaseWrapper):
    """Hands the end of a transaction and of the connection to `ends()` and `closes()`."""

    def ends(self, kind: str, send: Send) -> None:
        """Send a COMMIT or ROLLBACK."""
        raise NotImplementedError

    def closes(self, close: Send) -> None:
        """Close the driver's connection."""
        raise NotImplementedError

    def _commit(self) -> None:
        self.ends("COMMIT", super()._commit)  # type: ignore[misc]

    def _rollback(self) -> None:
        self.ends("ROLLBACK", super()._rollback)  # type: ignore[misc]

    def _close(self) -> None:
        self.closes(super()._close)  # type: ignore[misc]
