"""`manage.py ban`: bans domains; the admin lists bans, and lifts them."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from shorturl import bans
from shorturl.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    help = (
        "Ban domains with their subdomains: no link may be made to them, and the links that lead "
        "there expire at once. When a ban is lifted, in the admin, these stay expired."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("domains", nargs="+", metavar="DOMAIN", help="such as example.com")

    def handle(self, *args: Any, domains: list[str], **options: Any) -> None:
        try:
            names = sorted({bans.parse_domain(domain) for domain in domains})
        except ValidationError as error:
            raise CommandError(error.message) from error
        expired = bans.ban(names)
        self.stdout.write(f"Banned: {', '.join(names)}. Links that expire now: {expired:,}.")
