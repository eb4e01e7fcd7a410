"""What a command says when the database does not do what it is asked for."""

from django.core.management.base import CommandError
from django.db import DatabaseError

from shorturl.outages import lacks_migrations


def database_error(error: DatabaseError, what_now: str, *, returncode: int = 1) -> CommandError:
    """Return the error of a command: in one line the database's reason, and what to do now."""
    (reason, *_) = str(error).splitlines() or [type(error).__name__]
    if lacks_migrations(error):
        what_now = "Apply the migrations first: manage.py migrate."
    return CommandError(f"The database: {reason}. {what_now}", returncode=returncode)
