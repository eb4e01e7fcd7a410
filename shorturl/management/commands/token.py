"""`manage.py token`: creates, lists and revokes the API's tokens."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError
from django.db.models import Q
from django.db.models.functions import Now

from shorturl.management.database_command import user_of
from shorturl.models import ApiToken


class Command(BaseCommand):
    """Writes the token or the list to standard output, and all else to standard error."""

    help = "Create, list and revoke the tokens that programs use for the API."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(required=True, metavar="create | list | revoke")
        create = actions.add_parser("create", help="create a token and print it, once")
        create.add_argument("name", metavar="NAME", help="who or what uses it, such as backup")
        create.add_argument("--user", metavar="USERNAME", help="limits it to this user's links")
        scopes = ApiToken.SCOPES
        may = "what it may do, by default everything"
        create.add_argument("--scopes", nargs="+", choices=scopes, default=scopes, help=may)
        create.set_defaults(action=self.create)
        list_all = actions.add_parser("list", help="list the tokens: name, prefix, times, scopes")
        list_all.set_defaults(action=self.list)
        revoke = actions.add_parser("revoke", help="refuse a token from the next call on")
        revoke.add_argument("which", metavar="PREFIX|NAME", help="its prefix or its name")
        revoke.set_defaults(action=self.revoke)

    def handle(self, *args: Any, action: Any, **options: Any) -> None:
        action(**options)

    def create(self, name: str, user: str | None, scopes: Sequence[str], **options: Any) -> None:
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

    def list(self, **options: Any) -> None:
        tokens = ApiToken.objects.select_related("user").order_by("id")
        width = max((len(token.name) for token in tokens), default=0)
        for token in tokens:
            state = f"revoked {token.revoked_at:%Y-%m-%d %H:%M}" if token.revoked_at else "valid"
            owner = f"of {token.user}" if token.user else "of all users"
            self.stdout.write(
                f"{token.name:{width}}  {token.prefix}…  created {token.created_at:%Y-%m-%d %H:%M}"
                f"  {state}  {','.join(token.scopes) or 'nothing'} {owner}"
            )
        if not tokens:
            self.stderr.write("There are no tokens: create one with `token create NAME`.")

    def revoke(self, which: str, **options: Any) -> None:
        tokens = ApiToken.objects.none()
        if which.isprintable():  # all names are printable, and PostgreSQL refuses a NUL
            tokens = ApiToken.objects.filter(Q(name=which) | Q(prefix=which.rstrip("…")))
        if len(tokens) != 1:
            how_many = "Several tokens are" if tokens else "No token is"
            raise CommandError(f"{how_many} called {which!r}: see `token list`.")
        if not tokens.filter(revoked_at=None).update(revoked_at=Now()):
            raise CommandError(f"The token {which!r} is revoked already.")
        self.stderr.write(f"The token {which!r} is revoked.")
