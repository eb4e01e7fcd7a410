"""Links to choose a password: Django's views, with a limit on e-mails and links that work once."""

from typing import Any

from django.conf import settings
from django.contrib.auth.forms import PasswordResetForm
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordResetConfirmView, PasswordResetView
from django.http import HttpResponse

from project.accounts.login import limit_hashes
from project.accounts.saving import AccountChanged
from shorturl.exceptions import TooManyCreates
from shorturl.limits import quotas

MAX_MAILS = 3  # a day to one account: anybody can request them


class ResetForm(PasswordResetForm):
    """Django's form, which sends at most MAX_MAILS a day to an account."""

    def get_users(self, email: str) -> list[User]:
        return [account for account in super().get_users(email) if spend_mail(account)]


def spend_mail(account: User) -> bool:
    """Spend one of the account's e-mails of today; return whether one was left."""
    try:
        # A quota of e-mails, which creates no link.
        quotas.spend(f"mail {account.pk}", create=lambda: None, limit=MAX_MAILS)
    except TooManyCreates:
        return False
    return True


class ResetPassword(PasswordResetView):
    """Sends a link to the first of ALLOWED_HOSTS: the host of a request is what its client says."""

    form_class = ResetForm

    def form_valid(self, form: Any) -> HttpResponse:
        """Send the e-mails; raise LoginsBusy beyond the limit of hashes, which are as slow."""
        protocol, domain = settings.SHORTURL_ORIGIN.split("://")
        self.extra_email_context = {"protocol": protocol, "domain": domain}
        with limit_hashes():
            return super().form_valid(form)


class ChoosePassword(PasswordResetConfirmView):
    """The form of an invitation or a reset; a link of an inactive account counts as used."""

    def get_user(self, uidb64: str) -> User | None:
        account: User | None = super().get_user(uidb64)
        return account if account and account.is_active else None

    def form_valid(self, form: Any) -> HttpResponse:
        """Set the password, or show the page of a used link if another browser was faster."""
        try:
            return super().form_valid(form)
        except AccountChanged:
            self.validlink = False
            return self.render_to_response(self.get_context_data())
