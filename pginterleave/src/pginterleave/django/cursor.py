"""Django's cursors, with each statement as a step."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

from pginterleave import statements
from pginterleave.session import Session

ROWS_KEPT = 10  # of what a statement returned, for the timeline


class SteppingCursor(CursorWrapper):
    """Takes statements step by step, and records what they return."""

    _last: SimpleNamespace | None = None

    @property
    def _session(self) -> Session:
        session: Session = self.db.session
        return session

    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        return self._send(super()._execute, sql, params, once=True)  # type: ignore[misc]

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        return self._send(super()._executemany, sql, param_list)  # type: ignore[misc]

    def callproc(self, procname: Any, params: Any = None, kparams: Any = None) -> Any:
        with self._session.step("CALL", f"CALL {procname}", params) as self._last:
            return super().callproc(procname, params, kparams)

    def _send(
        self, send: Callable[[Any, Any], Any], sql: Any, params: Any, *, once: bool = False
    ) -> Any:
        session = self._session
        text = sql if isinstance(sql, str) else sql.as_string(self.cursor)
        if session.connecting or statements.only_begins(text):
            session.serializable |= "SERIALIZABLE" in text.upper()
            return send(sql, params)
        self.db.validate_no_broken_transaction()  # Django sends nothing then
        connected = self.db.connection is not None
        writes = once and connected and session.split_autocommit and statements.writes(text)
        split = session.commit_is_a_step = writes and not session.in_transaction()
        with session.step(statements.kind(text), text, params) as self._last:
            with session.uncommitted() if split else contextlib.nullcontext():
                result = send(sql, params)
            self._last.rowcount = self.cursor.rowcount
        if split:
            with session.step("COMMIT", "COMMIT"):
                session.control("COMMIT")
        return result

    def _fetch(self, method: str, *args: Any) -> list[Any]:
        fetch = CursorWrapper.__getattr__(self, method)
        if name := getattr(self.cursor, "name", None):  # a server-side cursor asks PostgreSQL
            name = re.sub(r"\d{4,}", str(self._session.number), name)
            with self._session.step("FETCH", f"FETCH FROM {name}") as self._last:
                rows = fetch(*args)
                self._last.rowcount = self.cursor.rowcount
        else:
            rows = fetch(*args)
        rows = [] if rows is None else [rows] if method == "fetchone" else rows
        self._keep(rows)
        return rows

    def _keep(self, rows: list[Any]) -> None:
        step = self._last
        if step is None or not rows:
            return
        kept = getattr(step, "rows", ())
        if not kept:
            step.columns = tuple(column[0] for column in self.cursor.description)
        step.rows = kept + tuple(map(tuple, rows[: ROWS_KEPT - len(kept)]))

    def fetchone(self) -> Any:
        return next(iter(self._fetch("fetchone")), None)

    def fetchmany(self, *args: Any) -> Any:
        return self._fetch("fetchmany", *args)

    def fetchall(self) -> Any:
        return self._fetch("fetchall")

    def __iter__(self) -> Iterator[Any]:
        while rows := self.fetchmany(getattr(self.cursor, "itersize", 100)):
            yield from rows

    def __getattr__(self, attr: str) -> Any:
        attribute = super().__getattr__(attr)
        if attr.startswith("copy"):
            return functools.partial(self._copy, attribute)
        return attribute

    def _copy(self, copy: Callable[..., Any], sql: Any, *args: Any, **kwargs: Any) -> Any:
        with self._session.step("COPY", str(sql)) as self._last:
            return copy(sql, *args, **kwargs)


class SteppingDebugCursor(SteppingCursor, CursorDebugWrapper):
    """The same, when Django logs queries."""
