"""`manage.py roll_up`: adds partial counts to the links' counters, and visits to longer periods."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError
from django.utils import timezone

from shorturl.links.partial_counts import roll_up
from shorturl.management.command_errors import database_error
from shorturl.visits.roll_up import roll_up_visits


class Command(BaseCommand):
    """A timer runs it every day, and every minute with the strategy `append_only`."""

    help = (
        "Add the partial counts of the strategies append_only and slotted_counter to the links' "
        "counters. Add visits up: single ones by the hour, old hours by the day, old days by the "
        "month, and by dimension if a link has many kinds of visits. Safe at any time, and any "
        "number of times at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Roll up; raise CommandError for a database error."""
        try:
            self.stdout.write(f"{roll_up():,} hits moved.")
            self.stdout.write(f"{roll_up_visits(timezone.now()):,} rows of visits rolled up.")
        except DatabaseError as error:
            raise database_error(error, "Nothing is lost: try again.") from error
