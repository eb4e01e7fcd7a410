"""The forms that the pages and the admin share."""

from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.widgets import Script

from shorturl.exceptions import LimitTooLow
from shorturl.links import labels
from shorturl.links.validators import clean_target_url, validate_expiry
from shorturl.models import ShortUrl

# Phones must not capitalise or correct the input.
AS_TYPED = {
    "autocapitalize": "none",
    "autocomplete": "off",
    "autocorrect": "off",
    "spellcheck": "false",
}


class TagsField(forms.CharField):
    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str] | None:
        return labels.clean_tags(super().clean(value))


class MinuteField(forms.DateTimeField):
    """A time without seconds; a stored time with seconds does not count as changed."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, datetime):
            value = value.replace(second=0, microsecond=0)
        return super().prepare_value(value)


class ChangeForm(forms.ModelForm):  # type: ignore[type-arg]
    """Changes only the fields that differ from what the form showed.

    It has hidden fields with the values that it showed, so what another changes meanwhile is kept.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A program may send no such fields: then the row is what it has seen.
        has_shown = any(name.startswith("initial-") for name in self.data)
        for field in self.fields.values():
            field.show_hidden_initial = self.instance.pk is not None and (
                has_shown or not self.is_bound
            )

    def clean(self) -> dict[str, Any] | None:
        """Return the changed fields: Django sets no others of the row."""
        super().clean()
        values = self.cleaned_data.items()
        return {name: value for name, value in values if name in self.changed_data}


class LinkForm(ChangeForm):
    """The fields of a link; changed_values() has those that were changed."""

    own_host: str  # the Host of the request, to which no target may lead

    # Without a maxlength, at which a browser silently cuts pasted text.
    target_url = forms.CharField(
        label="Target URL",
        error_messages={"required": "Enter the target URL, for example https://example.com/page."},
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/a/long/page", **AS_TYPED}),
    )
    title = forms.CharField(
        help_text="Your name for the link, shown on its page.",
        required=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    tags = TagsField(
        help_text="Words to find the link by, separated by commas, for example: spring, catalogue.",
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
        help_texts = {"max_hits": "The number of hits after which the link stops working."}
        error_messages = {"max_hits": {"invalid": "Enter a whole number, or leave it empty."}}

    class Media:
        js = [Script("shorturl/times.js", defer=True)]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "max_hits" in self.fields:  # as it is for users who may change the link
            self.fields["max_hits"].widget.attrs["min"] = 1  # Django's is the least of a bigint

    def clean_target_url(self) -> str:
        """Return the target; an unchanged target need not be valid by today's rules."""
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
        """Replaces ChangeForm.clean(), which keeps only changed fields."""

    def changed_values(self) -> dict[str, Any]:
        """Return the changed columns, with their values."""
        return {name: self.cleaned_data[name] for name in self.changed_data}
