"""`manage.py tidy`: all that a timer has to do, one command after another."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from shorturl.management.database_command import database_error

# The longest is the last.
COMMANDS = "forget_answers", "forget_spending", "clearsessions", "roll_up"


class Command(BaseCommand):
    """A timer runs it every ten minutes."""

    help = (
        f"Run {', '.join(COMMANDS)}: add visits up, and remove what is no longer needed. Safe at "
        "any time, and any number of times at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run each command, also after one that fails; raise CommandError at the end then."""
        failed = []
        for name in COMMANDS:
            try:
                # pginterleave: alone - clearsessions is Django's; nobody uses an expired session
                call_command(name, stdout=self.stdout, stderr=self.stderr)
            except CommandError as error:
                failed.append(f"{name}: {error}")
            except DatabaseError as error:  # of Django's own command
                failed.append(f"{name}: {database_error(error, 'Try again.')}")
        if failed:
            raise CommandError("\n".join(failed))
