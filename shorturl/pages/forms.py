"""The forms of the pages: to create, change and find links, and to choose a range of visits."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.forms.widgets import Script
from django.utils import timezone

from shorturl import operations
from shorturl.exceptions import ShortUrlError
from shorturl.forms import AS_TYPED, LinkForm, TagsField
from shorturl.limits import quotas
from shorturl.links import keys
from shorturl.models import OWNER_CONSTRAINT, ShortUrl
from shorturl.visits.ranges import Bucket, range_of

ACCOUNT_REMOVED = "Your account was removed meanwhile; nothing was created."
AT_A_TIME = "at"
EXPIRIES = [
    ("", "Never"),
    ("1", "In a day"),
    ("7", "In a week"),
    ("30", "In a month"),
    (AT_A_TIME, "At the time"),
]


class EditForm(LinkForm):
    """The form of a link, on which an expiry can also be chosen in days."""

    expires = forms.ChoiceField(
        required=False,
        choices=EXPIRIES,
        error_messages={"invalid_choice": "Choose a time from the list."},
        widget=forms.RadioSelect,
    )
    field_order: Sequence[str] = ["target_url", "title", "tags", "max_hits", "expires"]

    class Media:
        js = [Script("shorturl/tags.js", defer=True)]

    def __init__(self, data: object = None, *, own_host: str, **options: Any) -> None:
        super().__init__(data, **options)
        self.own_host = own_host
        self.initial["expires"] = AT_A_TIME if self.instance.expires_at else ""
        self.fields["tags"].widget.attrs["list"] = "used-tags"  # link_fields.html has the list

    def clean(self) -> None:
        """Make the chosen days the expiry."""
        choice = self.cleaned_data.get("expires")
        expires_at = self.cleaned_data.get("expires_at")
        if choice == AT_A_TIME:
            if not expires_at and "expires_at" not in self.errors:
                self.add_error("expires_at", "Enter a date and a time.")
        elif expires_at and "expires_at" in self.changed_data:
            self.add_error("expires", "Choose “At the time”, or clear the time.")
        else:
            expiry = timezone.now() + timedelta(days=int(choice)) if choice else None
            self.cleaned_data["expires_at"] = expiry

    def changed_values(self) -> dict[str, Any]:
        """Return the changed columns; clean() has made `expires` the column expires_at."""
        names = {"expires_at" if name == "expires" else name for name in self.changed_data}
        return {name: self.cleaned_data[name] for name in names}

    def focus_first_error(self) -> None:
        name = next((name for name in self.fields if name in self.errors), "target_url")
        self.fields[name].widget.attrs["autofocus"] = True


class CreateForm(EditForm):
    """The form of a new link; create() sets its `link`, or the `status` of the error."""

    link: ShortUrl
    is_new: bool  # false if `link` is reused
    status = 422
    headers: Mapping[str, str] = {}

    key = forms.CharField(
        label="Custom key",
        help_text=f"Letters, digits, - and _, at most {keys.MAX_LENGTH}. "
        "Leave the field empty for a random key.",
        required=False,
        validators=[keys.validate_custom_key],
        widget=forms.TextInput(attrs=AS_TYPED),
    )
    reuse = forms.BooleanField(
        label="Reuse my short URL to the same target, if there is one", required=False
    )
    field_order = ["target_url", "key", *EditForm.field_order[1:]]

    def clean(self) -> None:
        if self.cleaned_data.get("reuse"):
            for name in self.detail_names():
                if self.cleaned_data.get(name):
                    advice = "Leave this empty, or uncheck the box"
                    self.add_error(name, f"{advice}: a reused short URL keeps its own.")
        super().clean()

    def detail_names(self) -> list[str]:
        """Return the names of the fields below the target."""
        return [name for name in self.fields if name not in ("target_url", "reuse")]

    def has_details(self) -> bool:
        return any(self[name].value() or self[name].errors for name in self.detail_names())

    def create(self, spender: str, owner_id: int | None) -> bool:
        """Create the link, or add the reason to the errors; return whether there is a link.

        `spender` pays for it: see quotas.spender_of(). Raises PermissionDenied if the owner's
        account was removed meanwhile.
        """
        if not self.is_valid():
            return False
        try:
            self.link, self.is_new = self.create_or_reuse(spender, owner_id)
        except ShortUrlError as error:
            self.status, self.headers = error.status, error.headers
            self.add_error(error.field or None, error.message)  # None: of the whole form
            return False
        except IntegrityError as error:
            if not keys.violates(error, OWNER_CONSTRAINT):
                raise
            raise PermissionDenied(ACCOUNT_REMOVED) from error
        return True

    def warning(self) -> str:
        """Return a sentence about a link whose key differs from a chosen key in case; or ""."""
        key = self.cleaned_data["key"]
        if not key:
            return ""
        same_letters = ShortUrl.objects.filter(key__iexact=key, deleted_at=None).exclude(key=key)
        other = same_letters.first()
        return f" Mind the case: /{other} is another short URL." if other else ""

    def create_or_reuse(self, spender: str, owner_id: int | None) -> tuple[ShortUrl, bool]:
        """Return the link, and whether it is new."""
        values: dict[str, Any] = {name: self.cleaned_data[name] for name in self.Meta.fields}
        if self.cleaned_data["reuse"] and owner_id:
            return quotas.reuse(spender, values["target_url"], owner_id=owner_id)
        key = self.cleaned_data["key"] or None
        create = partial(operations.create, **values, key=key, owner_id=owner_id)
        return quotas.spend(spender, create), True


# By `order` in the address: title and column. No index has the hits: each hit would update it.
ORDERS = {
    "": ("Newest first", "-id"),
    "oldest": ("Oldest first", "id"),
    "key": ("By key", "key"),
    "most": ("Most followed", "-hits"),
    "least": ("Least followed", "hits"),
    "week": ("Most visited in 7 days", "-last_week"),
}


class FilterForm(forms.Form):
    q = forms.CharField(
        label="Part of the key, target or title",
        required=False,
        widget=forms.TextInput(attrs={"type": "search", **AS_TYPED}),
    )
    tags = TagsField(required=False, widget=forms.TextInput({"list": "used-tags", **AS_TYPED}))
    state = forms.ChoiceField(
        required=False,
        choices=[("", "Any"), ("live", "Live"), ("expired", "Expired"), ("used up", "Used up")],
        error_messages={"invalid_choice": "Choose live, expired or used up."},
    )
    order = forms.ChoiceField(
        required=False,
        choices=[(name, title) for name, (title, _) in ORDERS.items()],
        error_messages={"invalid_choice": "Choose oldest, key, most, least or week."},
    )

    @property
    def is_filtered(self) -> bool:
        return any(self.cleaned_data[name] for name in ("q", "tags", "state"))


class QrCodeForm(forms.Form):
    """How a QR code is saved; DEFAULTS are for what is left out."""

    DEFAULTS: Mapping[str, int] = {"size": 600, "border": 4}

    size = forms.IntegerField(
        label="Pixels, at most", initial=DEFAULTS["size"], min_value=100, max_value=2_000
    )
    border = forms.IntegerField(
        label="Border in modules", initial=DEFAULTS["border"], min_value=0, max_value=20
    )


class RangeForm(forms.Form):
    """The parameters `from`, `to` and `by`; cleaned_data has them as `range` and `by`."""

    first = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    last = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))
    by = forms.TypedChoiceField(
        label="By",
        choices=[(unit.value, unit.value) for unit in Bucket],
        coerce=Bucket,
        error_messages={"invalid_choice": "Choose hour, day or month."},
    )

    def add_prefix(self, field_name: str) -> str:
        """Return the parameter of a field; `from` cannot be the name of a field in Python."""
        return {"first": "from", "last": "to"}.get(field_name, field_name)

    def clean(self) -> None:
        values = self.cleaned_data
        if not self.errors:
            try:
                values["range"] = range_of(values["first"], values["last"], values["by"])
            except ValidationError as error:
                self.add_error("first" if "from" in error.error_dict else "by", error.messages[0])
