"""`manage.py roll_up`: partial counts into the links' own counters, visits into longer times."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError
from django.utils import timezone

from shorturl.management.command_errors import database_error
from shorturl.roll_up import roll_up
from shorturl.visit_roll_up import roll_up_visits


class Command(BaseCommand):
    """Moves what there is; for a timer, every day, and with `append_only` every minute."""

    help = (
        "Move the hits that the strategies append_only and slotted_counter have counted apart into "
        "the links' own counters, and add up visits: single ones by the hour, old hours by the "
        "day, old days by the month; where a link has many kinds of them, by each dimension. "
        "Safe at any time, and any number of times at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Move, and say how many; raise CommandError when the database cannot."""
        try:
            self.stdout.write(f"{roll_up():,} hits moved.")
            self.stdout.write(f"{roll_up_visits(timezone.now()):,} rows of visits rolled up.")
        except DatabaseError as error:
            raise database_error(error, "Nothing is lost: try again.") from error
