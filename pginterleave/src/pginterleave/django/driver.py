"""Notices what the code under test asks of the driver's connection itself, past Django.

That is `connection.connection`, its cursors, and `cursor.cursor`. Statements of Django for a step,
and of the explorer, go through the same methods. `Session.sending()` says that they are not to be
noted.
"""

import functools
from typing import Any

from pginterleave.session import Session

CURSOR = ("execute", "executemany", "callproc", "copy_from", "copy_to", "copy_expert")
ENDS = ("close", "commit", "rollback", "reset", "set_isolation_level")
TWO_PHASES = ("tpc_begin", "tpc_prepare", "tpc_commit", "tpc_rollback")
CONNECTION = (*ENDS, *TWO_PHASES, "lobject", "set_client_encoding")


def _noting(base: type, name: str) -> Any:
    method = getattr(base, name)

    @functools.wraps(method)
    def noting(self: Any, *args: Any, **options: Any) -> Any:
        getattr(self, "connection", self).session.note_past()
        return method(self, *args, **options)

    return noting


@functools.cache
def _cursor_class(base: Any) -> Any:
    return type(base.__name__, (base,), {name: _noting(base, name) for name in CURSOR})


def psycopg2_class(base: Any, session: Session) -> Any:
    """Return a class of psycopg2's connections; `base` is their class or a subclass."""

    def cursor(
        self: Any, name: Any = None, cursor_factory: Any = None, *args: Any, **options: Any
    ) -> Any:
        options |= dict(zip(("scrollable", "withhold"), args, strict=False))
        given = {"cursor_factory": cursor_factory} if cursor_factory else {}
        # A DictConnection has another class of cursors than psycopg2's default.
        made: Any = type(base.cursor(self, name, **options, **given))
        return base.cursor(self, name, **options, cursor_factory=_cursor_class(made))

    methods = {name: _noting(base, name) for name in CONNECTION}
    return type(base.__name__, (base,), {**methods, "cursor": cursor, "session": session})


def psycopg_class(base: Any, session: Session) -> Any:
    """Return a class of psycopg 3's connections, all of whose cursors send through `wait()`."""

    def wait(self: Any, generator: Any, *args: Any, **options: Any) -> Any:
        if not generator.__name__.startswith("_set_"):  # such as autocommit, which sends nothing
            session.note_past()
        return base.wait(self, generator, *args, **options)

    return type(
        base.__name__, (base,), {"wait": wait, "close": _noting(base, "close"), "session": session}
    )
