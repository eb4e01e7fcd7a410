"""`manage.py roll_up`: adds visits up by the hour, day and month."""

from typing import Any

from shorturl.exceptions import counted
from shorturl.management.database_command import DatabaseCommand
from shorturl.visits.roll_up import roll_up_visits


class Command(DatabaseCommand):
    help = (
        "Add visits up: recent ones by the hour and the day, old days by the month. Safe at any "
        "time, and any number of times at once."
    )
    what_now = "Nothing is lost: try again."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{counted(roll_up_visits(), 'row')} of visits rolled up.")
