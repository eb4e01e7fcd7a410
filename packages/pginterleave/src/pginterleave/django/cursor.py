"""Django's cursors, with each statement as a step.

Two methods are private in Django: `_execute` and `_executemany`. The public hook,
`connection.execute_wrapper()`, is not used: Django calls it before the wrappers that the code under
test installs, and these may send another statement, or none.
"""

import contextlib
import datetime
import decimal
import functools
import re
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from django.db.backends.postgresql.psycopg_any import Inet, Jsonb, is_psycopg3
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

from pginterleave.processes.session import ProcessSession, keep_rows
from pginterleave.sql import statements

# The types of parameters that psycopg2 writes as constants.
CONSTANT_TYPES: set[Any] = {
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    bytearray,
    memoryview,
    decimal.Decimal,
}
CONSTANT_TYPES |= {datetime.date, datetime.time, datetime.datetime, datetime.timedelta, uuid.UUID}
CONSTANT_TYPES |= {Inet, Jsonb}  # of a GenericIPAddressField and a JSONField


def _is_constant(value: Any) -> bool:
    """Whether a parameter, or each of several, is sent as a constant; an AsIs may be any SQL."""
    if type(value) is dict:
        value = list(value.values())
    if type(value) in (list, tuple):
        return all(map(_is_constant, value))
    return type(value) in CONSTANT_TYPES


class SteppingCursor(CursorWrapper):
    """Takes each statement as a step, and records its result."""

    db: Any  # a SteppingWrapper
    _last_step: SimpleNamespace | None = None

    def _write_sql(self, sql: Any, params: Any = None) -> str:
        """Return a statement as text: with its parameters, if one of them may be any SQL."""
        if is_psycopg3 or _is_constant(params):
            text = sql.as_string(self.cursor) if hasattr(sql, "as_string") else sql
        else:
            text = self._get_driver_method("mogrify")(sql, params)
        return text.decode() if isinstance(text, bytes) else str(text)  # execute_values() has bytes

    def close(self) -> None:
        """Close the cursor: no step, because even a server-side cursor releases no lock."""
        with self.db.session.allow_direct_use():
            self._get_driver_method("close")()

    def callproc(self, procname: Any, params: Any = None, kparams: Any = None) -> Any:
        """Call a function of the database; the step shows the SELECT that the driver sends."""
        values = list(params.values() if isinstance(params, dict) else params or ())
        placeholders = ", ".join(["%s"] * len(values))
        sql = f"SELECT * FROM {self._write_sql(procname)}({placeholders})"  # noqa: S608
        statement = self.db.session.take_statement(self._write_sql(sql, values), values)
        with statement as self._last_step:
            return super().callproc(procname, params, kparams)

    def _get_driver_method(self, name: str) -> Any:
        """Return a method of the driver's cursor: Django's class passes its attributes on."""
        return super().__getattr__(name)

    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        return self._send(super()._execute, sql, params, many=False)  # type: ignore[misc]

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        return self._send(super()._executemany, sql, param_list, many=True)  # type: ignore[misc]

    def _send(self, send: Callable[..., Any], sql: Any, params: Any, *, many: bool) -> Any:
        """Send a statement as a step; `many` says that `params` has several rows of parameters."""
        session: ProcessSession = self.db.session
        if many:
            session.catalogue.note_unchecked("what executemany() sends is one step")
            params = list(params)  # it may be an iterator
        if many and not _is_constant(params):
            text = "; ".join(self._write_sql(sql, row) for row in params)
        else:
            text = self._write_sql(sql, params)
        # What Django sends to set up a connection is no step, and a BEGIN is none, either.
        if session.connecting or statements.is_begin_alone(text):
            with session.send_begin(text):
                return send(sql, params)
        self.db.validate_no_broken_transaction()  # it raises before anything is sent
        # A server-side cursor outlives the statement, and needs its transaction.
        single = not many and not self._server_side_name
        with session.take_statement(text, params, single=single) as self._last_step:
            result = send(sql, params)
            self._last_step.rowcount = self.cursor.rowcount
        return result

    @property
    def _server_side_name(self) -> str:
        """The name of a server-side cursor, or "", without Django's number of the thread in it."""
        return re.sub(r"\d{4,}", "1", getattr(self.cursor, "name", None) or "")

    def _fetch(self, method: str, *args: Any) -> Any:
        """Fetch by a method of the driver's cursor. With a server-side cursor it is a step."""
        fetch = self._get_driver_method(method)
        name = self._server_side_name
        if not name:
            return fetch(*args)
        with self.db.session.take_step("FETCH", f"FETCH FROM {name}") as self._last_step:
            result = fetch(*args)
            self._last_step.rowcount = self.cursor.rowcount
        return result

    def _record_rows(self, rows: list[Any]) -> list[Any]:
        keep_rows(self._last_step, self.cursor, rows)
        return rows

    def fetchone(self) -> Any:
        row = self._fetch("fetchone")
        self._record_rows([] if row is None else [row])
        return row

    def fetchmany(self, *args: Any) -> list[Any]:
        return self._record_rows(self._fetch("fetchmany", *args))

    def fetchall(self) -> list[Any]:
        return self._record_rows(self._fetch("fetchall"))

    def __iter__(self) -> Iterator[Any]:
        while rows := self.fetchmany(getattr(self.cursor, "itersize", 100)):
            yield from rows

    def __getattr__(self, attr: str) -> Any:
        attribute = super().__getattr__(attr)
        if attr.startswith("copy"):
            return functools.partial(self._copy, attr, attribute)
        return attribute

    def _copy(self, name: str, copy: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call psycopg2's copy_expert(sql), copy_from(file, table) or copy_to(file, table)."""
        names = ("sql",) if name == "copy_expert" else ("file", "table")
        arguments = dict(zip(names, args, strict=False)) | kwargs
        direction = "FROM STDIN" if name == "copy_from" else "TO STDOUT"
        sql = arguments.get("sql") or f"COPY {arguments.get('table')} {direction}"
        with self.db.session.take_statement(self._write_sql(sql), None) as self._last_step:
            return copy(*args, **kwargs)

    @contextlib.contextmanager
    def copy(self, sql: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Copy rows with psycopg 3, as a step."""
        statement = self.db.session.take_statement(self._write_sql(sql), None)
        with statement as self._last_step, self.cursor.copy(sql, *args, **kwargs) as copy:
            yield copy


class SteppingDebugCursor(SteppingCursor, CursorDebugWrapper):
    """The cursor that also logs queries, as Django does in debug mode."""


# The methods of psycopg2 that the code under test may call past Django. The steps of Django and
# the statements of the explorer use them, too: see `ProcessSession.allow_direct_use()`.
CURSOR_METHODS = ("execute", "executemany", "callproc", "copy_from", "copy_to", "copy_expert")
ENDING = ("close", "commit", "rollback", "reset", "set_isolation_level", "set_client_encoding")
CONNECTION_METHODS = (*ENDING, "lobject", "tpc_begin", "tpc_prepare", "tpc_commit", "tpc_rollback")


def _make_noting_method(base: type, name: str) -> Any:
    """Return a method that notes a use past Django, and then calls the method of the base class."""
    method = getattr(base, name)

    @functools.wraps(method)
    def note_and_call(self: Any, *args: Any, **options: Any) -> Any:
        getattr(self, "connection", self).session.note_direct_use()  # of a cursor, or itself
        return method(self, *args, **options)

    return note_and_call


@functools.cache
def _make_cursor_class(base: Any) -> Any:
    """Return a subclass of a class of psycopg2's cursors that notes each use past Django."""
    methods = {name: _make_noting_method(base, name) for name in CURSOR_METHODS}
    return type(base.__name__, (base,), methods)


def make_psycopg2_class(base: Any, session: ProcessSession) -> Any:
    """Return a subclass of a class of psycopg2's connections that notes each use past Django."""

    def cursor(self: Any, *args: Any, **options: Any) -> Any:
        # Make a cursor to find its class: the caller or the connection may choose it.
        cursor_class: Any = type(base.cursor(self, *args, **options))
        names = ("name", "cursor_factory", "withhold", "scrollable")
        arguments = dict(zip(names, args, strict=False)) | options
        arguments["cursor_factory"] = _make_cursor_class(cursor_class)
        return base.cursor(self, **arguments)

    methods = {name: _make_noting_method(base, name) for name in CONNECTION_METHODS}
    return type(base.__name__, (base,), {**methods, "cursor": cursor, "session": session})


def make_psycopg_class(base: Any, session: ProcessSession) -> Any:
    """Return a subclass of a class of psycopg 3's connections that notes each use past Django."""

    def wait(self: Any, generator: Any, *args: Any, **options: Any) -> Any:  # all cursors use it
        if not generator.__name__.startswith("_set_"):  # such as autocommit, which sends nothing
            session.note_direct_use()
        return base.wait(self, generator, *args, **options)

    methods = {"wait": wait, "close": _make_noting_method(base, "close")}
    return type(base.__name__, (base,), {**methods, "session": session})
