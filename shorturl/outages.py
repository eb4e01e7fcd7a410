"""What an error of the database means: an outage or an overload, or else its code."""

import re

from django.db import DatabaseError, InterfaceError, InternalError, OperationalError

# https://www.postgresql.org/docs/18/errcodes-appendix.html
UNDEFINED = "42P01", "42703"  # a table or a column that is not there
LOCK_NOT_AVAILABLE = "55P03"
# Of a lock, a statement's time, a deadlock, a conflict of transactions, connections: it will pass.
BUSY = LOCK_NOT_AVAILABLE, "57014", "40P01", "40001", "53300"
NO_ROOM = re.compile("too many (clients|connections)|connection slots|no more connections allowed")
READ_ONLY = "25006"  # the server is a replica, or its default is to be read-only
# What Citus says when a node goes away within a statement; it has PostgreSQL's code for bugs.
NODE_LOST = re.compile("failure on connection marked as essential|postmaster was shut down")
NODE = re.compile(r"(?:remote node |essential: |to the node )(?:\S+@)?(\S+:\d+)")


def is_outage(error: object) -> bool:
    """Return whether another try may help, later on."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    if isinstance(error, DatabaseError) and driver_error(error, READ_ONLY):
        return True
    if isinstance(error, InternalError) and NODE_LOST.search(str(error)):
        return True
    # When the connection breaks in the middle of a statement, psycopg2 now and then finds no better
    # class than the base of all its errors. Django's own errors of that class have no cause.
    return type(error) is DatabaseError and error.__cause__ is not None


def is_busy(error: BaseException) -> bool:
    """Return whether the outage is one of a database that answers, and has too much to do."""
    return any(driver_error(error, code) for code in BUSY) or bool(NO_ROOM.search(str(error)))


def missing_node(error: object) -> str:
    """Return the node of a Citus cluster that does not answer, as host:port; "" for no such error.

    The rest of the cluster goes on, and other keys may be on it.
    """
    found = NODE.search(str(error)) if is_outage(error) else None
    return found[1] if found else ""


def driver_error(error: BaseException | None, code: str) -> BaseException | None:
    """Return the driver's error with PostgreSQL's `code` that led to `error`; None without one."""
    while error is not None:
        # The name of psycopg2, and that of psycopg 3.
        if code in (getattr(error, "pgcode", None), getattr(error, "sqlstate", None)):
            return error
        error = error.__cause__ or error.__context__
    return None


def lacks_migrations(error: BaseException) -> bool:
    return any(driver_error(error, code) for code in UNDEFINED)
