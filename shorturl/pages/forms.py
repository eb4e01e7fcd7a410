"""The forms that create a short URL and change one."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.forms.widgets import Script

from shorturl import operations
from shorturl.limits import quotas
from shorturl.links import keys, labels
from shorturl.links.bans import clean_target_url
from shorturl.links.validators import validate_expiry
from shorturl.models import ShortUrl

# No phone may capitalise or correct what is typed.
AS_TYPED = {
    "autocapitalize": "none",
    "autocomplete": "off",
    "autocorrect": "off",
    "spellcheck": "false",
}


class TagsField(forms.CharField):
    """Tags, separated by commas."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str] | None:
        """Return the tags as labels.clean_tags() does."""
        return labels.clean_tags(super().clean(value))


class LinkForm(forms.Form):
    """The fields that the pages and the admin share.

    No target may lead to `own_host`, the Host of the request.

    A form that changes a link has hidden fields with the values that it showed. Only fields that
    differ from these are changed, so a concurrent change of another field is kept.
    """

    own_host: str

    title = forms.CharField(
        label="Title",
        help_text="What you call it. Everybody who can see the page of the link can read it.",
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    tags = TagsField(
        label="Tags",
        help_text="Words to find it by, separated by commas, for example: spring, catalogue.",
        required=False,
        widget=forms.TextInput(attrs=AS_TYPED),
    )
    # times.js converts the field to the reader's time zone and back, and names the zone here.
    expires_at = forms.DateTimeField(
        label="Expiry",
        help_text="When it stops leading there, in UTC. Leave it empty for no expiry.",
        required=False,
        error_messages={"invalid": "Enter a date and a time, for example 2030-12-31 23:59."},
        widget=forms.DateTimeInput(
            format="%Y-%m-%dT%H:%M:%S",
            attrs={"type": "datetime-local", "step": 1, "autocomplete": "off"},
        ),
    )

    class Media:
        js = [Script("shorturl/times.js", defer=True)]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            field.show_hidden_initial = bool(self.initial)

    def clean_target_url(self) -> str:
        """Return the target URL with its scheme; raise ValidationError where no link may lead."""
        return clean_target_url(self.cleaned_data["target_url"], self.own_host)

    def clean_title(self) -> str:
        """Return the title on one line; raise ValidationError for one that is too long."""
        return labels.clean_title(self.cleaned_data["title"])

    def clean_expires_at(self) -> datetime | None:
        """Return the expiry; raise ValidationError for a new one that is invalid."""
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if expires_at and "expires_at" in self.changed_data:
            return validate_expiry(expires_at)
        return expires_at


class TargetForm(LinkForm):
    """What can be changed of a short URL."""

    field_order: Sequence[str] = ("target_url", "title", "tags", "max_hits", "expires_at")

    # Without a maxlength, at which a browser silently cuts pasted text.
    target_url = forms.CharField(
        label="Target URL",
        error_messages={"required": "Enter the target URL, for example https://example.com/page."},
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/a/long/page", **AS_TYPED}),
    )

    max_hits = forms.IntegerField(
        label="Limit",
        help_text="After how many hits it stops leading there. Leave it empty for no limit.",
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
        """Set the autofocus on the first field with an error, or on the target URL."""
        wrong = [name for name in self.fields if name in self.errors]
        self.fields[wrong[0] if wrong else "target_url"].widget.attrs["autofocus"] = True


class ShortUrlForm(TargetForm):
    """The form that creates a short URL."""

    field_order = ("target_url", "key", "title", "tags", "max_hits", "expires_at")

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

    def clean(self) -> None:
        """Add an error to each option that cannot be combined with `reuse`."""
        for name in ("key", "title", "tags", "max_hits", "expires_at"):
            if self.cleaned_data.get("reuse") and self.cleaned_data.get(name):
                message = "Leave it empty, or uncheck the box: a reused short URL keeps its own."
                self.add_error(name, message)

    def save(self, spender: str, owner_id: int | None) -> tuple[ShortUrl, bool]:
        """Return a short URL of this account, and whether it is new; `spender` spends its quotas.

        Raises TooManyCreates, and the errors of operations.create() and operations.reuse().
        """
        values: dict[str, Any] = dict(self.cleaned_data)
        values["key"] = values["key"] or None
        if values.pop("reuse") and owner_id:
            return quotas.reuse(spender, values["target_url"], owner_id=owner_id)
        create = partial(operations.create, **values, owner_id=owner_id)
        return quotas.spend(spender, create), True
