"""The form of the range of visits on the page of a short URL."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from shorturl.visits.ranges import Bucket, range_of

DAY = forms.DateInput({"type": "date"})


class RangeForm(forms.Form):
    """The parameters `from`, `to` and `by`; valid, it has a `range` of at most MAX_BUCKETS."""

    first = forms.DateField(label="From", required=False, widget=DAY)
    last = forms.DateField(label="To", required=False, widget=DAY)
    by = forms.ChoiceField(
        label="By",
        choices=[(unit.value, unit.value) for unit in Bucket],
        error_messages={"invalid_choice": "Choose hour, day or month."},
    )

    def add_prefix(self, field_name: str) -> str:
        return {"first": "from", "last": "to"}.get(field_name, field_name)

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if not self.errors:
            try:
                values["range"] = range_of(values["first"], values["last"], Bucket(values["by"]))
            except ValidationError as error:
                self.add_error("first" if "from" in error.error_dict else "by", error.messages[0])
        return values
