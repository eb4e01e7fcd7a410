"""`manage.py roll_up`: move partial counts into the links' own counters."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from shorturl.roll_up import roll_up


class Command(BaseCommand):
    """Moves what there is; for a timer, with `append_only` every minute."""

    help = (
        "Move the hits that the strategies append_only and slotted_counter have counted apart into "
        "the links' own counters. Safe at any time, and any number of times at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Move, and say how many; raise CommandError when the database cannot."""
        try:
            self.stdout.write(f"{roll_up():,} hits moved.")
        except DatabaseError as error:
            (reason, *_) = str(error).splitlines()
            raise CommandError(f"The database: {reason}. Nothing is lost: try again.") from error
