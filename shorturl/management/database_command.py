"""What commands share: errors of the database, and a missing user."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from shorturl.outages import lacks_migrations


class DatabaseCommand(BaseCommand):
    """A command that raises CommandError for a database error, and says `what_now`."""

    what_now = "Try again."

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except DatabaseError as error:
            raise database_error(error, self.what_now) from error


def database_error(error: DatabaseError, what_now: str, *, returncode: int = 1) -> CommandError:
    """Return the CommandError, with the first line of the database's error and what to do now."""
    (reason, *_) = str(error).splitlines() or [type(error).__name__]
    if lacks_migrations(error):
        what_now = "Apply the migrations first: manage.py migrate."
    return CommandError(f"The database: {reason}. {what_now}", returncode=returncode)


def user_of(username: str) -> User:
    try:
        return User.objects.get(username=username)
    except (User.DoesNotExist, ValueError) as error:  # ValueError: a NUL
        raise CommandError(f"There is no user {username!r}.") from error
