"""`manage.py remove_account`: removes an account; its links stay without an owner."""

from argparse import ArgumentParser
from typing import Any

from shorturl.limits import owners
from shorturl.management.database_command import DatabaseCommand, user_of


class Command(DatabaseCommand):
    """Does what the admin does, for accounts with too many links for one request."""

    help = (
        "Remove an account with its tokens. Its links stay in service, without an owner. Safe "
        "while they are followed: they are locked a thousand at a time."
    )
    what_now = "Try again: it continues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", metavar="USERNAME")

    def handle(self, *args: Any, username: str, **options: Any) -> None:
        links = owners.remove(user_of(username))
        self.stdout.write(f"{username} is removed; {links:,} links have no owner now.")
