"""Prepared statements for redirects: PostgreSQL parses and plans each of them once in a session.

That is most of what a short statement costs it. psycopg2 has no such thing, so this is the SQL of
it, in an execute wrapper of Django's; a strategy knows nothing of it. Behind a pooler that hands
every transaction to another session, it is left out.

A plan lasts until the table is analyzed: of a table that was nearly empty when it was made, and has
grown since, it may read all rows. Autovacuum analyzes such a table within a minute, and
`import_links` when it ends.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DatabaseError

from shorturl.outages import driver_error

# The statement is unknown, as after DISCARD ALL, or returns other types, as after a migration:
# https://www.postgresql.org/docs/18/errcodes-appendix.html
STALE = ("26000", "0A000")
DUPLICATE = "42P05"
# Or PostgreSQL plans a statement five times more before it keeps a plan, in every session. Each has
# one good plan, whatever its values are: by a unique key.
PREPARE = "SET plan_cache_mode = force_generic_plan; PREPARE {} AS {}"

# By the driver's connection, and so by session: how each statement is executed, "" for as it is.
_statements: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def prepared(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Execute a statement as a prepared one where that can be done; else as it is."""
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
            if not driver_error(error, DUPLICATE):  # of one that was interrupted, or a pooler's
                raise
        statements[sql] = f"EXECUTE {name} ({', '.join(['%s'] * len(params))})"
    if not statements[sql]:
        return execute(sql, params, many, context)
    try:
        return execute(statements[sql], params, False, context)
    except DatabaseError as error:
        if not any(driver_error(error, code) for code in STALE):
            raise
        # Nothing was done: outside a transaction, the statement that failed was all of it.
        execute("DEALLOCATE ALL", None, False, context)
        statements.clear()
        if is_new:  # it cannot be prepared, as a WITH that changes rows on Citus
            statements[sql] = ""
        return execute(sql, params, many, context)
