"""`manage.py ban`: bans domains, lifts bans and lists them."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from shorturl import bans
from shorturl.management.database_command import DatabaseCommand
from shorturl.models import BannedDomain


class Command(DatabaseCommand):
    """Writes the list to standard output, and all else to standard error."""

    help = (
        "Ban domains with their subdomains: no link may be made to them, and the links that lead "
        "there expire at once. When a ban is lifted, these stay expired."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("domains", nargs="*", metavar="DOMAIN", help="such as example.com")
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--lift", action="store_true", help="lift the bans of these domains")
        action.add_argument("--list", action="store_true", help="list the banned domains")

    def handle(self, *args: Any, domains: list[str], lift: bool, **options: Any) -> None:
        if bool(domains) == options["list"]:  # both, or neither
            raise CommandError("Name domains, such as example.com, or use --list alone.")
        if options["list"]:
            for ban in BannedDomain.objects.order_by("domain"):
                self.stdout.write(f"{ban.domain}  banned {ban.banned_at:%Y-%m-%d %H:%M} UTC")
            return
        try:
            names = sorted({bans.parse_domain(domain) for domain in domains})
        except ValidationError as error:
            raise CommandError(error.message) from error
        if not lift:
            expired = bans.ban(names)
            self.stderr.write(f"Banned: {', '.join(names)}. Links that expire now: {expired:,}.")
        elif bans.lift(names):
            self.stderr.write(f"Lifted: {', '.join(names)}.")
        else:
            raise CommandError(f"Not banned: {', '.join(names)}. See `manage.py ban --list`.")
