"""Which errors of the database are outages, overloads or missing migrations."""

import re

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from shorturl import cluster

# https://www.postgresql.org/docs/18/errcodes-appendix.html
MISSING_TABLE_OR_COLUMN = "42P01", "42703"
PERMISSION_DENIED = "42501"
LOCK_NOT_AVAILABLE = "55P03"
QUERY_CANCELED = "57014"  # by statement_timeout
# Temporary: lock_timeout, statement_timeout, deadlock, serialization failure, connection limit.
BUSY = LOCK_NOT_AVAILABLE, QUERY_CANCELED, "40P01", "40001", "53300"
TOO_MANY_CONNECTIONS = re.compile(
    "too many (clients|connections)|connection slots|no more connections allowed"
)
READ_ONLY = "25006"  # on a stand-by, or by default_transaction_read_only


def is_outage(error: object) -> bool:
    """Return whether a later attempt may succeed."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    if isinstance(error, DatabaseError) and driver_error(error, READ_ONLY):
        return True
    if cluster.is_node_lost(error):
        return True
    # When the connection breaks within a statement, psycopg2 sometimes raises the base class of its
    # errors. Django's own errors of that class have no cause.
    return type(error) is DatabaseError and error.__cause__ is not None


def is_busy(error: BaseException) -> bool:
    """Return whether the database answers, but is overloaded."""
    # The error of a refused connection has no code, so its text has to say why.
    return any(driver_error(error, code) for code in BUSY) or bool(
        TOO_MANY_CONNECTIONS.search(str(error))
    )


def driver_error(error: BaseException | None, code: str) -> BaseException | None:
    """Return the driver's error with PostgreSQL's `code` that led to `error`; None without one."""
    while error is not None:
        # The attributes of psycopg2 and of psycopg 3.
        if code in (getattr(error, "pgcode", None), getattr(error, "sqlstate", None)):
            return error
        error = error.__cause__ or error.__context__
    return None


def lacks_migrations(error: BaseException) -> bool:
    return any(driver_error(error, code) for code in MISSING_TABLE_OR_COLUMN)


def database_address() -> str:
    """Return the host and the port of the database, for the log."""
    database = connection.settings_dict
    return f"{database['HOST'] or 'a local socket'}:{database['PORT'] or 5432}"
