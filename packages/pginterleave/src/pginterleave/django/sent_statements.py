"""The statements that all of Django's connections send."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from django.db.backends.signals import connection_created


@contextlib.contextmanager
def watch_statements(note: Callable[[str, str], object]) -> Iterator[None]:
    """Enter to have `note` called with the SQL of each statement, and the connection's alias."""

    def wrap(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        text = sql.as_string(context["cursor"].cursor) if hasattr(sql, "as_string") else sql
        note(str(text), context["connection"].alias)
        return execute(sql, params, many, context)

    def add_wrapper(connection: Any, **_: Any) -> None:
        # The first, because connection.execute_wrapper() removes the last when it ends.
        if wrap not in connection.execute_wrappers:
            connection.execute_wrappers.insert(0, wrap)

    connection_created.connect(add_wrapper)
    yield
    connection_created.disconnect(add_wrapper)
