"""A logged-in user changes the password; a user with a link, e-mailed or from an operator, sets it.

The views and links are Django's. A link is signed, expires after PASSWORD_RESET_TIMEOUT, and is
valid only while the account has the password that it had when the link was made. Django checks that
and then saves the account. If two people used one link at the same time, both would be told that
their password is set, and the first password would be lost. Here the UPDATE itself has the
condition.
"""

from http import HTTPStatus
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.http import HttpResponse
from django.urls import reverse, reverse_lazy
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode


class PasswordReplaced(Exception):
    """The account has another password by now, or is inactive."""


class ReplacesOnce(forms.Form):
    """A form that sets a new password if the account still has the one that was read."""

    user: User

    def save(self, commit: bool = True) -> User:
        """Set the password; raise PasswordReplaced if the account was changed meanwhile.

        Only this column is written. Django would write all columns back as they were read, and so
        undo a change of the account, such as a withdrawn staff status.
        """
        before = self.user.password
        self.user.set_password(self.cleaned_data["new_password1"])
        same = User.objects.filter(pk=self.user.pk, password=before, is_active=True)
        if not same.update(password=self.user.password):
            raise PasswordReplaced(
                "Nothing is changed: the account was changed meanwhile, or the link was used."
            )
        return self.user


class ChangeForm(ReplacesOnce, PasswordChangeForm):
    """The form of a user who knows the old password."""


class ChooseForm(ReplacesOnce, SetPasswordForm):  # type: ignore[type-arg]
    """The form of a user who has a link."""


class ShowsReplaced:
    """A view that shows its form again, as a 409, for PasswordReplaced."""

    def form_valid(self, form: Any) -> HttpResponse:
        try:
            response: HttpResponse = super().form_valid(form)  # type: ignore[misc]
        except PasswordReplaced as error:
            form.add_error(None, str(error))
            response = self.form_invalid(form)  # type: ignore[attr-defined]
            response.status_code = HTTPStatus.CONFLICT
        else:
            messages.success(self.request, "Your password is set.")  # type: ignore[attr-defined]
        return response


class ChangePassword(ShowsReplaced, views.PasswordChangeView):
    form_class = ChangeForm
    template_name = "accounts/change_password.html"
    success_url = reverse_lazy("account")


class ChoosePassword(ShowsReplaced, views.PasswordResetConfirmView):
    """The page that a link of a reset or an invitation leads to; it also logs the user in."""

    form_class = ChooseForm
    template_name = "accounts/choose_password.html"
    success_url = reverse_lazy("my_links")
    post_reset_login = True
    post_reset_login_backend = settings.AUTHENTICATION_BACKENDS[-1]

    def render_to_response(self, context: dict[str, Any], **options: Any) -> HttpResponse:
        """Return the page, as a 410 for an invalid link."""
        if not self.validlink:
            options["status"] = HTTPStatus.GONE
        return super().render_to_response(context, **options)


def link_of(account: User) -> str:
    """Return the URL at which the password of the account can be set, once.

    Its host is the first of ALLOWED_HOSTS: the host of a request is what its client says.
    """
    uid = urlsafe_base64_encode(force_bytes(account.pk))
    path = reverse("choose_password", args=[uid, default_token_generator.make_token(account)])
    return settings.SHORTURL_ORIGIN + path
