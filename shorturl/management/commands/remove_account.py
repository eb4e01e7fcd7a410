"""`manage.py remove_account`: removes an account, and hands its links over."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from shorturl.limits import owners
from shorturl.management.database_command import DatabaseCommand, user_of


class Command(DatabaseCommand):
    """Does what the admin does, for accounts with too many links for one request."""

    help = (
        "Remove an account with its tokens. Its links stay in service. Safe while they are "
        "followed: they are locked a thousand at a time."
    )
    what_now = "Try again: it continues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", metavar="USERNAME")
        parser.add_argument("--links-to", metavar="USERNAME", help="the new owner of the links")

    def handle(self, *args: Any, username: str, links_to: str | None, **options: Any) -> None:
        """Remove the account; raise CommandError for an unknown one."""
        account = user_of(username)
        owner = user_of(links_to) if links_to else None
        if owner == account:
            raise CommandError(f"{username} cannot be both: name another account after --links-to.")
        links = owners.remove(account, links_to=owner)
        whose = f"belong to {owner}" if owner else "have no owner"
        self.stdout.write(f"{username} is removed. Links that {whose} now: {links:,}.")
