"""What an error of the database is: nobody's mistake, as it is away or overloaded; or its code."""

from django.db import DatabaseError, InterfaceError, OperationalError

# A table or a column that is not there: https://www.postgresql.org/docs/18/errcodes-appendix.html
UNDEFINED = "42P01", "42703"


def is_outage(error: object) -> bool:
    """Return whether another try may help, later on."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    # When the connection breaks in the middle of a statement, psycopg2 now and then finds no better
    # class than the base of all its errors. Django's own errors of that class have no cause.
    return type(error) is DatabaseError and error.__cause__ is not None


def driver_error(error: BaseException | None, code: str) -> BaseException | None:
    """Return the driver's error with PostgreSQL's `code` that led to `error`; None without one."""
    while error is not None:
        # The name of psycopg2, and that of psycopg 3.
        if code in (getattr(error, "pgcode", None), getattr(error, "sqlstate", None)):
            return error
        error = error.__cause__ or error.__context__
    return None


def lacks_migrations(error: BaseException) -> bool:
    """Return whether PostgreSQL does not know a table or a column, which `migrate` makes."""
    return any(driver_error(error, code) for code in UNDEFINED)
