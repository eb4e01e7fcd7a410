"""The forms that create, change and find short URLs, and choose a range of visits."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.widgets import Script
from django.utils import timezone

from shorturl import operations
from shorturl.limits import quotas
from shorturl.limits.bans import clean_target_url
from shorturl.links import keys, labels
from shorturl.links.validators import validate_expiry
from shorturl.models import LinkState, ShortUrl
from shorturl.visits.overview import LISTS
from shorturl.visits.ranges import Bucket, range_of, read_date

# Phones must not capitalise or correct the input.
AS_TYPED = {
    "autocapitalize": "none",
    "autocomplete": "off",
    "autocorrect": "off",
    "spellcheck": "false",
}


DAYS = {"1": "In a day", "7": "In a week", "30": "In a month"}


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


class LinkForm(forms.Form):
    """The fields that the pages and the admin share.

    A form that changes a link has hidden fields with the values that it showed. Only fields that
    differ from these are changed, so a concurrent change of another field is kept.
    """

    own_host: str  # the Host of the request, to which no target may lead

    title = forms.CharField(
        label="Title",
        help_text="Your name for the link. It is shown on the page of the link.",
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    tags = TagsField(
        label="Tags",
        help_text="Words to find it by, separated by commas, for example: spring, catalogue.",
        required=False,
        widget=forms.TextInput(attrs=AS_TYPED),
    )
    # times.js converts the field to the reader's time zone and back, and its help names the zone.
    expires_at = MinuteField(
        label="Expiry",
        help_text="The exact time, in UTC.",
        required=False,
        error_messages={"invalid": "Enter a date and a time, for example 2030-12-31 23:59."},
        widget=forms.DateTimeInput(
            format="%Y-%m-%dT%H:%M",
            attrs={"type": "datetime-local", "autocomplete": "off"},
        ),
    )

    forward_query = forms.BooleanField(
        label="Add the query of the short URL to the target's", required=False
    )

    class Media:
        js = [Script("shorturl/times.js", defer=True)]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            field.show_hidden_initial = bool(self.initial)

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


class TargetForm(LinkForm):
    field_order: Sequence[str] = (
        *("target_url", "title", "tags", "max_hits", "expires_in", "expires_at", "forward_query"),
    )

    # Without a maxlength, at which a browser silently cuts pasted text.
    target_url = forms.CharField(
        label="Target URL",
        error_messages={"required": "Enter the target URL, for example https://example.com/page."},
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/a/long/page", **AS_TYPED}),
    )

    max_hits = forms.IntegerField(
        label="Limit",
        help_text="The number of hits after which it stops working. Leave it empty for no limit.",
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        error_messages={"invalid": "Enter a whole number, or leave it empty for no limit."},
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
    )

    expires_in = forms.ChoiceField(
        label="Expires",
        help_text="When the link stops working.",
        required=False,
        choices=[("", "Never, or at the exact time"), *DAYS.items()],
        error_messages={"invalid_choice": "Choose a day, a week, a month, or nothing."},
    )

    def __init__(self, data: object = None, *, own_host: str, **options: Any) -> None:
        super().__init__(data, **options)
        self.own_host = own_host

    def clean(self) -> None:
        """Make the chosen days the expiry."""
        days = self.cleaned_data.pop("expires_in", "")
        if days and "expires_at" in self.changed_data:
            self.add_error("expires_at", "Choose after how many days, or enter a time: not both.")
        elif days:
            self.cleaned_data["expires_at"] = timezone.now() + timedelta(days=int(days))

    def changes(self) -> dict[str, Any]:
        """Return the changed columns, with their values."""
        names = ["expires_at" if name == "expires_in" else name for name in self.changed_data]
        return {name: self.cleaned_data[name] for name in names}

    def focus_first_error(self) -> None:
        wrong = [name for name in self.fields if name in self.errors]
        self.fields[wrong[0] if wrong else "target_url"].widget.attrs["autofocus"] = True


class ShortUrlForm(TargetForm):
    field_order = ("target_url", "key", *TargetForm.field_order[1:])

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
        for name in self.field_order[1:]:
            if self.cleaned_data.get("reuse") and self.cleaned_data.get(name):
                message = "Leave it empty, or uncheck the box: a reused short URL keeps its own."
                self.add_error(name, message)
        super().clean()

    def save(self, spender: str, owner_id: int | None) -> tuple[ShortUrl, bool]:
        """Return the short URL, and whether it is new; raise the errors of spend() and reuse()."""
        values: dict[str, Any] = dict(self.cleaned_data)
        values["key"] = values["key"] or None
        if values.pop("reuse") and owner_id:
            return quotas.reuse(spender, values["target_url"], owner_id=owner_id)
        create = partial(operations.create, **values, owner_id=owner_id)
        return quotas.spend(spender, create), True


STATES = [LinkState.LIVE, LinkState.EXPIRED, LinkState.USED_UP]
ORDERS = {
    "": ("Newest first", "-id"),
    "oldest": ("Oldest first", "id"),
    "key": ("By key", "key"),
}


class FilterForm(forms.Form):
    q = forms.CharField(
        label="Part of the key, target or title",
        required=False,
        widget=forms.TextInput(attrs={"type": "search", **AS_TYPED}),
    )
    tags = TagsField(
        label="Tags",
        required=False,
        widget=forms.TextInput(attrs={"list": "used-tags", **AS_TYPED}),
    )
    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=[("", "Any"), *((state.value, state.value.capitalize()) for state in STATES)],
        error_messages={"invalid_choice": "Choose live, expired or used up."},
    )
    show = forms.ChoiceField(
        label="Show",
        required=False,
        choices=[
            *((name, title) for name, (title, _) in ORDERS.items()),
            *((name, each.title) for name, each in LISTS.items()),
        ],
        error_messages={"invalid_choice": "Choose oldest, key, followed, fading or never."},
    )


class DateField(forms.CharField):
    widget = forms.TextInput(attrs={"type": "date"})

    def clean(self, value: Any) -> date | None:
        text = super().clean(value)
        return read_date(text) if text else None


class RangeForm(forms.Form):
    first = DateField(label="From", required=False)
    last = DateField(label="To", required=False)
    by = forms.ChoiceField(
        label="By",
        required=False,
        choices=[(unit.value, unit.value) for unit in Bucket],
        error_messages={"invalid_choice": "Choose hour, day or month."},
    )

    def add_prefix(self, field_name: str) -> str:
        return {"first": "from", "last": "to"}.get(field_name, field_name)

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if self.errors:
            return given
        by = Bucket(given["by"] or Bucket.DAY)
        try:
            chosen = range_of(given["first"], given["last"], by)
        except ValidationError as error:
            self.add_error("first" if "from" in error.error_dict else "by", error.messages[0])
            return given
        return {"range": chosen, "by": by}
