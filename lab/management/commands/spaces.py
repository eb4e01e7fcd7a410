"""`manage.py spaces`: list the key spaces of load runs, and remove old ones."""

from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from lab.load import key_spaces as spaces
from lab.models import KeySpace

MINUTES = int(spaces.FORGOTTEN_AFTER.total_seconds() // 60)


def minutes(text: str) -> timedelta:
    if not text.isdecimal() or len(text) > 6:
        raise ArgumentTypeError(f"{text!r} is not a number of minutes, for example {MINUTES}")
    return timedelta(minutes=int(text))


class Command(BaseCommand):
    help = "List the key spaces of load runs, or remove those that a run left behind."

    def add_arguments(self, parser: CommandParser) -> None:
        does = parser.add_subparsers(required=True, metavar="list | sweep")
        show = does.add_parser("list", help="list name, key length, links and opening time")
        show.set_defaults(do=self.list)
        sweep = does.add_parser("sweep", help="remove old spaces with all their links")
        sweep.add_argument(
            "--older-than",
            metavar="MINUTES",
            type=minutes,
            default=spaces.FORGOTTEN_AFTER,
            help=f"the age from which a space is removed (default: {MINUTES})",
        )
        sweep.set_defaults(do=self.sweep)

    def handle(self, *args: Any, do: Any, **options: Any) -> None:
        try:
            do(**options)
        except DatabaseError as error:
            (reason, *_) = str(error).splitlines()
            raise CommandError(f"Database error: {reason}. Is it migrated?") from error

    def list(self, **options: Any) -> None:
        for space in KeySpace.objects.order_by("id"):
            count = spaces.links(space.name).count()
            self.stdout.write(
                f"{space.name}  key length {space.key_length}  {count} links  "
                f"opened {space.created_at:%Y-%m-%d %H:%M}"
            )

    def sweep(self, older_than: timedelta, **options: Any) -> None:
        removed, links = spaces.sweep(older_than)
        self.stdout.write(f"Removed {removed} key spaces and {links} links.")
