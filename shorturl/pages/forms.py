"""The forms that create, change and find short URLs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.forms.widgets import Script
from django.utils import timezone

from shorturl import bans, operations
from shorturl.exceptions import (
    KeySpaceExhausted,
    KeyTaken,
    LimitTooLow,
    TargetBanned,
    TooManyCreates,
)
from shorturl.limits import quotas
from shorturl.links import keys, labels
from shorturl.links.validators import clean_target_url, validate_expiry
from shorturl.models import OWNER_CONSTRAINT, BannedDomain, LinkState, ShortUrl

REMOVED = "Your account was removed meanwhile; nothing was created."
# Phones must not capitalise or correct the input.
AS_TYPED = {
    "autocapitalize": "none",
    "autocomplete": "off",
    "autocorrect": "off",
    "spellcheck": "false",
}
AT = "at"
EXPIRIES = {"": "Never", "1": "In a day", "7": "In a week", "30": "In a month", AT: "At the time"}


class TagsField(forms.CharField):
    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str] | None:
        return labels.clean_tags(super().clean(value))


class MinuteField(forms.DateTimeField):
    """A time without seconds; one that is stored with seconds does not count as changed."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, datetime):
            value = value.replace(second=0, microsecond=0)
        return super().prepare_value(value)


class LinkForm(forms.ModelForm):  # type: ignore[type-arg]
    """The fields that the pages and the admin share.

    A form that changes a link has hidden fields with the values that it showed. Only fields that
    differ from these are changed, so a concurrent change of another field is kept.
    """

    own_host: str  # the Host of the request, to which no target may lead

    # Without a maxlength, at which a browser silently cuts pasted text.
    target_url = forms.CharField(
        label="Target URL",
        error_messages={"required": "Enter the target URL, for example https://example.com/page."},
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/a/long/page", **AS_TYPED}),
    )
    title = forms.CharField(
        help_text="Your name for the link. It is shown on the page of the link.",
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    tags = TagsField(
        help_text="Words to find it by, separated by commas, for example: spring, catalogue.",
        required=False,
        widget=forms.TextInput(attrs=AS_TYPED),
    )
    # times.js converts the field to the reader's time zone and back, and its help names the zone.
    expires_at = MinuteField(
        label="Time",
        help_text="In UTC.",
        required=False,
        error_messages={"invalid": "Enter a date and a time, for example 2030-12-31 23:59."},
        widget=forms.DateTimeInput(
            format="%Y-%m-%dT%H:%M",
            attrs={"type": "datetime-local", "autocomplete": "off"},
        ),
    )

    class Meta:
        model = ShortUrl
        fields = ("target_url", "title", "tags", "max_hits", "expires_at", "forward_query")
        labels = {
            "max_hits": "Limit",
            "forward_query": "Pass parameters on (?utm_source=…) to the target",
        }
        help_texts = {"max_hits": "The number of hits after which it stops working."}
        error_messages = {"max_hits": {"invalid": "Enter a whole number, or leave it empty."}}

    class Media:
        js = [Script("shorturl/times.js", defer=True)]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            field.show_hidden_initial = self.instance.pk is not None

    def clean_target_url(self) -> str:
        """Return the target; one that is not changed need not be valid by today's rules."""
        target_url: str = self.cleaned_data["target_url"]
        if "target_url" in self.changed_data:
            return clean_target_url(target_url, self.own_host)
        return target_url

    def clean_title(self) -> str:
        return labels.clean_title(self.cleaned_data["title"])

    def clean_expires_at(self) -> datetime | None:
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if expires_at and "expires_at" in self.changed_data:
            return validate_expiry(expires_at)
        return expires_at

    def clean_max_hits(self) -> int | None:
        """Compare the limit with the hits that the form shows; operations.change() checks later."""
        max_hits: int | None = self.cleaned_data["max_hits"]
        if max_hits is not None and max_hits < self.instance.hits:
            raise ValidationError(str(LimitTooLow(max_hits)))
        return max_hits

    def clean(self) -> None:
        """Check no constraints of the table: the statement that writes the link does."""

    def changes(self) -> dict[str, Any]:
        """Return the changed columns, with their values."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


class EditForm(LinkForm):
    """The form of a page, on which an expiry can also be chosen in days."""

    expires = forms.ChoiceField(
        required=False,
        choices=[*EXPIRIES.items()],
        error_messages={"invalid_choice": "Choose one of these."},
        widget=forms.RadioSelect,
    )
    field_order: Sequence[str] = (
        *("target_url", "title", "tags", "max_hits", "expires", "expires_at"),
    )

    def __init__(self, data: object = None, *, own_host: str, **options: Any) -> None:
        super().__init__(data, **options)
        self.own_host = own_host
        self.initial["expires"] = AT if self.instance.expires_at else ""

    def clean(self) -> None:
        """Make the chosen days the expiry."""
        choice, expires_at = self.cleaned_data.get("expires"), self.cleaned_data.get("expires_at")
        if choice == AT:
            if not expires_at and "expires_at" not in self.errors:
                self.add_error("expires_at", "Enter a date and a time.")
        elif expires_at and "expires_at" in self.changed_data:
            self.add_error("expires", "Choose the time, or clear it: it is not used otherwise.")
        elif choice:
            self.cleaned_data["expires_at"] = timezone.now() + timedelta(days=int(choice))
        else:
            self.cleaned_data["expires_at"] = None

    def changes(self) -> dict[str, Any]:
        names = {"expires_at" if name == "expires" else name for name in self.changed_data}
        return {name: self.cleaned_data[name] for name in names}

    def focus_first_error(self) -> None:
        wrong = [name for name in self.fields if name in self.errors]
        self.fields[wrong[0] if wrong else "target_url"].widget.attrs["autofocus"] = True


# Why a create is refused: the field of the error, the status of the answer, and what to do.
REFUSALS: dict[type[Exception], tuple[str | None, HTTPStatus, str]] = {
    KeyTaken: ("key", HTTPStatus.CONFLICT, " Choose another one, or leave it empty."),
    KeySpaceExhausted: (
        None,
        HTTPStatus.SERVICE_UNAVAILABLE,
        " Choose a custom key, or try again later.",
    ),
    TargetBanned: ("target_url", HTTPStatus.UNPROCESSABLE_ENTITY, ""),
    TooManyCreates: (None, HTTPStatus.TOO_MANY_REQUESTS, ""),
}


class CreateForm(EditForm):
    """The form of a new link; after create() `link` is the link, or `status` that of the error."""

    link: ShortUrl
    is_new: bool  # unless `link` is reused
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    headers: Mapping[str, str] = {}

    key = forms.CharField(
        label="Custom key",
        help_text=f"Letters, digits, - and _, at most {keys.MAX_LENGTH}. "
        "Leave it empty for a random key.",
        required=False,
        validators=[keys.validate_custom_key],
        widget=forms.TextInput(attrs=AS_TYPED),
    )
    reuse = forms.BooleanField(
        label="Reuse my short URL to the same target, if there is one", required=False
    )
    field_order = ("target_url", "key", *EditForm.field_order[1:])

    def clean(self) -> None:
        if self.cleaned_data.get("reuse"):
            for name in self.fields.keys() - {"target_url", "reuse"}:
                if self.cleaned_data.get(name):
                    message = "Leave it out, or uncheck the box: a reused short URL keeps its own."
                    self.add_error(name, message)
        super().clean()

    def has_details(self) -> bool:
        """Return whether a field below the target has a value or an error."""
        names = [name for name in self.fields if name not in ("target_url", "reuse")]
        return any(self[name].value() or self[name].errors for name in names)

    def create(self, spender: str, owner_id: int | None) -> bool:
        """Create the link, or add the reason to the errors; return whether there is a link."""
        if not self.is_valid():
            return False
        try:
            self.link, self.is_new = self._create(spender, owner_id)
        except (KeyTaken, KeySpaceExhausted, TargetBanned, TooManyCreates) as error:
            field, self.status, advice = REFUSALS[type(error)]
            self.headers = getattr(error, "headers", {})
            self.add_error(field, f"{error}{advice}")
            return False
        except IntegrityError as error:
            if not keys.violates(error, OWNER_CONSTRAINT):
                raise
            raise PermissionDenied(REMOVED) from error
        return True

    def _create(self, spender: str, owner_id: int | None) -> tuple[ShortUrl, bool]:
        values: dict[str, Any] = {name: self.cleaned_data[name] for name in self._meta.fields or ()}
        if self.cleaned_data["reuse"] and owner_id:
            return quotas.reuse(spender, values["target_url"], owner_id=owner_id)
        create = partial(
            operations.create, **values, key=self.cleaned_data["key"] or None, owner_id=owner_id
        )
        return quotas.spend(spender, create), True


class BanForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = BannedDomain
        fields = ("domain",)

    def clean_domain(self) -> str:
        return bans.domain_of(self.cleaned_data["domain"])


STATES = [LinkState.LIVE, LinkState.EXPIRED, LinkState.USED_UP]
# By the value of `order` in the address. No index has the hits, because each hit would update it.
ORDERS = {
    "": ("Newest first", "-id"),
    "oldest": ("Oldest first", "id"),
    "key": ("By key", "key"),
    "most": ("Most followed", "-hits"),
    "least": ("Least followed", "hits"),
}


class FilterForm(forms.Form):
    q = forms.CharField(
        label="Part of the key, target or title",
        required=False,
        widget=forms.TextInput(attrs={"type": "search", **AS_TYPED}),
    )
    tags = TagsField(
        required=False,
        widget=forms.TextInput(attrs={"list": "used-tags", **AS_TYPED}),
    )
    state = forms.ChoiceField(
        required=False,
        choices=[("", "Any"), *((state.value, state.value.capitalize()) for state in STATES)],
        error_messages={"invalid_choice": "Choose live, expired or used up."},
    )
    order = forms.ChoiceField(
        required=False,
        choices=[(name, title) for name, (title, _) in ORDERS.items()],
        error_messages={"invalid_choice": "Choose oldest, key, most or least."},
    )
