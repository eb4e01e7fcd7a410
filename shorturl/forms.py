"""The forms that create a short URL and change one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings

from shorturl import keys, operations
from shorturl.models import ShortUrl
from shorturl.validators import validate_expiry, validate_foreign, validate_target_url

# A key is typed as it is meant: no phone is to capitalise or correct it.
AS_TYPED = {
    "autocapitalize": "none",
    "autocomplete": "off",
    "autocorrect": "off",
    "spellcheck": "false",
}


class LocalDateTime(forms.DateTimeInput):
    """A date and a time, which the browser helps to choose."""

    input_type = "datetime-local"


class LinkForm(forms.Form):
    """What the pages and the admin have in common; `own_host` is where no target may lead.

    A form that changes something holds what it showed: only what differs from that is changed, and
    not what somebody else has changed since.
    """

    own_host: str

    expires_at = forms.DateTimeField(
        label="Expiry",
        help_text="Until when it leads there, in UTC. Leave it empty for always.",
        required=False,
        error_messages={"invalid": "Enter a date and a time, for example 2030-12-31 23:59."},
        widget=LocalDateTime(format="%Y-%m-%dT%H:%M:%S", attrs={"step": 1}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            field.show_hidden_initial = bool(self.initial)

    def clean_target_url(self) -> str:
        """Return the target URL; raise ValidationError when it leads to this service."""
        target_url: str = self.cleaned_data["target_url"]
        validate_foreign(target_url, self.own_host, settings.ALLOWED_HOSTS)
        return target_url

    def clean_expires_at(self) -> datetime | None:
        """Return the expiry; raise ValidationError for a new one that is invalid."""
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if expires_at and "expires_at" in self.changed_data:
            return validate_expiry(expires_at)
        return expires_at


class TargetForm(LinkForm):
    """A target URL, a limit and an expiry.

    `own_host` is the Host of the request, to which no target may lead.
    """

    field_order: Sequence[str] = ("target_url", "max_hits", "expires_at")

    # No maxlength: a browser would cut what is pasted without a word.
    target_url = forms.CharField(
        label="Target URL",
        validators=[validate_target_url],
        error_messages={"required": "Enter the target URL, for example https://example.com/page."},
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/a/long/page", **AS_TYPED}),
    )

    max_hits = forms.IntegerField(
        label="Limit",
        help_text="How often it leads there. Leave it empty for always.",
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        error_messages={"invalid": "Enter a whole number, or leave it empty for no limit."},
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
    )

    def __init__(self, data: object = None, *, own_host: str, **options: Any) -> None:
        super().__init__(data, **options)
        self.own_host = own_host

    def focus_first_error(self) -> None:
        """Have the browser put the cursor where there is something to correct."""
        wrong = [name for name in self.fields if name in self.errors]
        self.fields[wrong[0] if wrong else "target_url"].widget.attrs["autofocus"] = True


class ShortUrlForm(TargetForm):
    """What makes a short URL: a target URL, and what is optional."""

    field_order = ("target_url", "key", "max_hits", "expires_at")

    key = forms.CharField(
        label="Custom key",
        help_text=f"Letters, digits, - and _, at most {keys.MAX_LENGTH}. "
        "Leave it empty for a random key.",
        required=False,
        validators=[keys.validate_custom_key],
        widget=forms.TextInput(attrs=AS_TYPED),
    )

    reuse = forms.BooleanField(
        label="My own short URL to the same target will do, if there is one", required=False
    )

    def clean(self) -> None:
        """Add an error to what is asked of a short URL that is there already."""
        for name in ("key", "max_hits", "expires_at"):
            if self.cleaned_data.get("reuse") and self.cleaned_data.get(name):
                message = "Leave it empty, or uncheck the box: what is reused keeps its own."
                self.add_error(name, message)

    def save(self, owner_id: int | None) -> tuple[ShortUrl, bool]:
        """Return a short URL of this account, and whether it is new.

        Raises what operations.create() and operations.reuse() raise.
        """
        values: dict[str, Any] = {name: found or None for name, found in self.cleaned_data.items()}
        if values.pop("reuse") and owner_id:
            return operations.reuse(values["target_url"], owner_id=owner_id)
        return operations.create(**values, owner_id=owner_id), True
