"""`manage.py token`: creates a token of the API; the admin lists and revokes tokens."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from shorturl.management.database_command import user_of
from shorturl.models import ApiToken


class Command(BaseCommand):
    """Writes the token to standard output, and all else to standard error."""

    help = "Create a token, with which a program uses the API. The admin lists and revokes tokens."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(required=True, metavar="create")
        create = actions.add_parser("create", help="create a token and print it, once")
        create.add_argument("name", metavar="NAME", help="who or what uses it, such as backup")
        create.add_argument("--user", metavar="USERNAME", help="limits it to this user's links")
        scopes = ApiToken.SCOPES
        may = "what it may do, by default everything"
        create.add_argument("--scopes", nargs="+", choices=scopes, default=scopes, help=may)

    def handle(
        self, *args: Any, name: str, user: str | None, scopes: Sequence[str], **options: Any
    ) -> None:
        may = {f"can_{scope}": scope in scopes for scope in ApiToken.SCOPES}
        token = ApiToken(name=name.strip(), user=user_of(user) if user else None, **may)
        token.set_random_text()
        try:
            token.full_clean()
            token.save()
        except ValidationError as error:
            reasons = " ".join(error.messages)
            raise CommandError(f"{name!r} is not a valid name: {reasons}") from error
        except IntegrityError as error:  # by another process, since full_clean()
            reason = "the name was just taken, or the account removed"
            raise CommandError(f"{name!r} is not created: {reason}.") from error
        self.stdout.write(token.text)
        self.stderr.write(
            f"This is the token of {token.name!r}. Keep it now: it is not stored, "
            "and not shown again. Send it as 'Authorization: Bearer <token>'."
        )
