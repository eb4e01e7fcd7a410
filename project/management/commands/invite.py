"""`manage.py invite`: make an account, and print the link for choosing its password."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

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
        username = User.normalize_username(username)
        account = User.objects.filter(username=username).first()
        if account is None:
            account = User(username=username, email=email)
            account.set_unusable_password()
            try:
                account.full_clean()
            except ValidationError as error:
                reason = " ".join(error.messages)
                raise CommandError(f"{username!r} cannot be invited: {reason}") from error
            account.save()
        elif account.has_usable_password() or not account.is_active:
            raise CommandError(f"{username!r} has an account: see `changepassword`.")
        self.stdout.write(make_password_link(account))
        expires_at = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
        self.stderr.write(
            f"Send this link to {username}. It works once, until {expires_at:%Y-%m-%d %H:%M} UTC. "
            f"`manage.py remove_account {username}` revokes it."
        )


def make_password_link(account: User) -> str:
    """Return the URL at which the password of the account can be set, once."""
    uid = urlsafe_base64_encode(force_bytes(account.pk))
    token = default_token_generator.make_token(account)
    return settings.SHORTURL_ORIGIN + reverse("password_reset_confirm", args=[uid, token])
