"""`manage.py invite`: make an account, and print the link for choosing its password."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils import timezone

from project.accounts.passwords import link_of
from shorturl.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    """Writes the link to standard output, and all else to standard error."""

    help = (
        "Make an account without a password, and print the link by which its user chooses one. "
        "For an existing account without a password, print another link."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", metavar="USERNAME")
        parser.add_argument("--email", default="", help="the address for links to a new password")

    def handle(self, *args: Any, username: str, email: str, **options: Any) -> None:
        """Print the link; raise CommandError for an invalid name, or an account with a password."""
        try:
            account = self.account(username, email)
        except ValidationError as error:
            reason = " ".join(error.messages)
            raise CommandError(f"{username!r} cannot be invited: {reason}") from error
        until = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
        self.stdout.write(link_of(account))
        self.stderr.write(
            f"Send this link to {account.username}. It works once, until {until:%Y-%m-%d %H:%M} "
            f"UTC. `manage.py remove_account {account.username}` revokes it."
        )

    def account(self, username: str, email: str) -> User:
        """Return a new account, or an existing one without a password."""
        account = User(username=User.normalize_username(username), email=email)
        account.set_unusable_password()
        account.full_clean(validate_unique=False)
        try:
            found = User.objects.get(username=account.username)
        except User.DoesNotExist:
            account.save()
            return account
        if found.has_usable_password() or not found.is_active:
            raise ValidationError("An account of this name exists: see `changepassword`.")
        return found
