"""`manage.py remove_account`: remove an account, and leave its links to nobody."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from shorturl import owners
from shorturl.management.command_errors import database_error


class Command(BaseCommand):
    """What the admin does, for an account with more links than a request has time for."""

    help = (
        "Remove an account with its tokens. Its links go on leading there, and are nobody's. Safe "
        "while they are followed: they are locked a thousand at a time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the name of the account."""
        parser.add_argument("username", metavar="USERNAME")

    def handle(self, *args: Any, username: str, **options: Any) -> None:
        """Remove it; raise CommandError when there is none, or the database cannot."""
        try:
            links = owners.remove(User.objects.get(username=username))
        except (User.DoesNotExist, ValueError) as error:  # ValueError: a NUL
            raise CommandError(f"There is no user {username!r}: see /admin/.") from error
        except DatabaseError as error:
            raise database_error(error, "Try again: it goes on.") from error
        self.stdout.write(f"{username} is removed; {links:,} links are nobody's now.")
