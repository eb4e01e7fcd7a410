"""Which errors of the database are nobody's mistake: it is away, or overloaded."""

from django.db import DatabaseError, InterfaceError, OperationalError


def is_outage(error: object) -> bool:
    """Return whether another try may help, later on."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return True
    # When the connection breaks in the middle of a statement, psycopg2 now and then finds no better
    # class than the base of all its errors. Django's own errors of that class have no cause.
    return type(error) is DatabaseError and error.__cause__ is not None
