"""The page of an account: its quotas and its API tokens."""

from http import HTTPStatus
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST

from shorturl.limits import quotas
from shorturl.links.keys import violates
from shorturl.models import NAME_CONSTRAINT, USER_CONSTRAINT, ApiToken
from shorturl.pages.forms import ACCOUNT_REMOVED
from shorturl.pages.views import see_other


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ApiToken
        fields = ("name", *(f"can_{scope}" for scope in ApiToken.SCOPES))

    def save(self, commit: bool = True) -> ApiToken:
        """Return the new token; raise ValidationError or PermissionDenied if it cannot be made."""
        self.instance.set_random_text()
        try:
            with transaction.atomic():
                token: ApiToken = super().save()
                return token
        except IntegrityError as error:
            if violates(error, USER_CONSTRAINT):
                raise PermissionDenied(ACCOUNT_REMOVED) from error
            if not violates(error, NAME_CONSTRAINT):
                raise
            raise forms.ValidationError("You have a token of this name: choose another.") from error


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def show_account(request: HttpRequest) -> HttpResponse:
    """Show the account; on POST make a token, and show it this once."""
    form = TokenForm(instance=ApiToken(user_id=request.user.pk))
    status = HTTPStatus.OK
    if request.method == "POST":
        form = TokenForm(request.POST, instance=form.instance)
        if form.is_valid():
            try:
                return render(request, "accounts/token.html", {"token": form.save()})
            except forms.ValidationError as error:
                form.add_error("name", error)
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    spender = quotas.spender_of(request.user, request)
    context: dict[str, Any] = {
        "form": form,
        "scopes": [form[f"can_{scope}"] for scope in ApiToken.SCOPES],
        "tokens": ApiToken.objects.filter(user=request.user.pk).order_by("-id"),
        "quota": quotas.limit_of(spender),
        "used": sum(quotas.usage_today(spender).values_list("spent", flat=True)),
    }
    return render(request, "accounts/account.html", context, status=status)


@require_POST
@login_required
def revoke_token(request: HttpRequest, token: int) -> HttpResponse:
    """Revoke a token of the user, given by its id."""
    tokens = ApiToken.objects.filter(pk=token, user=request.user.pk)
    if not tokens.filter(revoked_at=None).update(revoked_at=Now()):
        raise Http404
    messages.success(request, f"The token “{tokens.get().name}” is revoked.")
    return see_other("account")
