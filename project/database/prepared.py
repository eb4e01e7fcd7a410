"""Prepared statements for redirects: PostgreSQL parses and plans each of them once in a session.

Parsing and planning are most of the cost of a short statement. psycopg2 does not support prepared
statements. So an execute wrapper of Django sends PREPARE and EXECUTE, and strategies need not know.
Nothing is prepared behind a pooler that gives every transaction another session.

A plan lasts until the table is analyzed. A plan made for a nearly empty table reads all rows, also
after the table has grown. Autovacuum analyzes such a table within a minute, and `import_links` when
it ends.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DatabaseError

from shorturl.outages import driver_error

# The statement is unknown (after DISCARD ALL), or returns other types (after a migration):
# https://www.postgresql.org/docs/18/errcodes-appendix.html
STALE = ("26000", "0A000")
DUPLICATE = "42P05"
# By default PostgreSQL plans a statement five times in every session before it keeps a plan. These
# statements have one good plan for all values: by a unique key.
PREPARE = "SET plan_cache_mode = force_generic_plan; PREPARE {} AS {}"

# By the driver's connection, and so by session: the EXECUTE of each statement, "" if not prepared.
_statements: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def prepared(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Execute a statement, as a prepared one where possible."""
    connection = context["connection"]
    if not isinstance(sql, str) or not params or many or connection.in_atomic_block:
        return execute(sql, params, many, context)
    statements = _statements.setdefault(connection.connection, {})
    is_new = sql not in statements
    if is_new:
        if settings.DATABASE_POOLER != "none":
            return execute(sql, params, many, context)
        # Named by a hash of its SQL: a statement that exists under this name is the same one.
        name = f"redirect_{sha256(sql.encode()).hexdigest()[:16]}"
        placeholders = (f"${number}" for number in range(1, len(params) + 1))
        try:
            execute(PREPARE.format(name, sql % tuple(placeholders)), None, False, context)
        except DatabaseError as error:
            # It may exist after an interruption, or in a pooler's session.
            if not driver_error(error, DUPLICATE):
                raise
        statements[sql] = f"EXECUTE {name} ({', '.join(['%s'] * len(params))})"
    if not statements[sql]:
        return execute(sql, params, many, context)
    try:
        return execute(statements[sql], params, False, context)
    except DatabaseError as error:
        if not any(driver_error(error, code) for code in STALE):
            raise
        # Nothing was done: outside a transaction block, a failed statement is rolled back.
        execute("DEALLOCATE ALL", None, False, context)
        statements.clear()
        if is_new:  # it cannot be prepared, such as a WITH that changes rows on Citus
            statements[sql] = ""
        return execute(sql, params, many, context)
