"""Prepared statements for redirects: PostgreSQL parses and plans each of them once in a session.

Parsing and planning are most of the cost of a short statement. psycopg2 does not support prepared
statements. So this cursor sends PREPARE and EXECUTE, and strategies need not know. Nothing is
prepared behind a pooler that gives every transaction another session.

A plan lasts until the table is analyzed. A plan made for a nearly empty table reads all rows, also
after the table has grown. Autovacuum analyzes such a table within a minute, and `import_links` when
it ends.
"""

from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from shorturl.outages import driver_error

# The statement is unknown (after DISCARD ALL), or returns other types (after a migration):
# https://www.postgresql.org/docs/18/errcodes-appendix.html
STALE = ("26000", "0A000")
DUPLICATE = "42P05"
# By default PostgreSQL plans a statement five times in every session before it keeps a plan. These
# statements have one good plan for all values: by a unique key.
PREPARE = "SET plan_cache_mode = force_generic_plan; PREPARE {} AS {}"


class PreparedCursor(CursorWrapper):
    """A cursor of Django that prepares its statements where possible; for one session."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection.cursor().cursor, connection)
        # CursorWrapper would wrap these two again at each call.
        vars(self).update(fetchone=self.fetchone, fetchall=self.fetchall)
        self.statements: dict[str, str] = {}  # the EXECUTE of each statement, "" if not prepared
        # The text of each Composed. It has no hash, so its id is the key; it is kept for its id.
        self.texts: dict[int, tuple[Any, str]] = {}

    def execute(self, sql: Any, params: Any = None) -> None:
        """Execute a statement with parameters as a prepared one, unless in a transaction."""
        if not params or self.db.in_atomic_block:
            self.send(sql, params)
            return
        sql = self.text(sql)
        if sql not in self.statements:
            self.statements[sql] = self.prepare(sql, len(params))
        if not self.statements[sql]:
            self.send(sql, params)
            return
        try:
            self.send(self.statements[sql], params)
        except DatabaseError as error:
            if not any(driver_error(error, code) for code in STALE):
                raise
            # Nothing was done: outside a transaction block, a failed statement is rolled back.
            self.send("DEALLOCATE ALL")
            self.statements.clear()
            self.send(sql, params)

    def send(self, sql: Any, params: Any = None) -> None:
        # pginterleave: alone - the races explore the same statements with Django's cursor
        super().execute(sql, params)

    def text(self, sql: Any) -> str:
        """Return the text of a statement, which is a constant; a Composed is rendered once."""
        if isinstance(sql, str):
            return sql
        if id(sql) not in self.texts:
            self.texts[id(sql)] = sql, sql.as_string(self.cursor)
        return self.texts[id(sql)][1]

    def prepare(self, sql: str, parameters: int) -> str:
        """Prepare a statement with so many parameters; return its EXECUTE, "" behind a pooler."""
        if settings.DATABASE_POOLER != "none" or settings.DATABASE_CITUS:
            return ""
        # Named by a hash of its SQL: a statement that exists under this name is the same one.
        name = f"redirect_{sha256(sql.encode()).hexdigest()[:16]}"
        placeholders = (f"${number}" for number in range(1, parameters + 1))
        try:
            self.send(PREPARE.format(name, sql % tuple(placeholders)))
        except DatabaseError as error:
            # It may exist after an interruption, or in a pooler's session.
            if not driver_error(error, DUPLICATE):
                raise
        return f"EXECUTE {name} ({', '.join(['%s'] * parameters)})"
