"""The form of the range of visits on the page of a short URL."""

from datetime import date
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from shorturl.visits.ranges import Bucket, range_of, read_date


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
