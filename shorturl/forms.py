"""The forms that create a short URL and change one."""

from typing import Any

from django import forms
from django.conf import settings

from shorturl import keys, operations
from shorturl.models import ShortUrl
from shorturl.validators import validate_foreign, validate_target_url

# A key is typed as it is meant: no phone is to capitalise or correct it.
AS_TYPED = {
    "autocapitalize": "none",
    "autocomplete": "off",
    "autocorrect": "off",
    "spellcheck": "false",
}


class TargetForm(forms.Form):
    """A target URL. `own_host` is the Host of the request, to which none may lead."""

    # No maxlength: a browser would cut what is pasted without a word.
    target_url = forms.CharField(
        label="Target URL",
        validators=[validate_target_url],
        error_messages={"required": "Enter the target URL, for example https://example.com/page."},
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/a/long/page", **AS_TYPED}),
    )

    def __init__(self, data: object = None, *, own_host: str, **options: Any) -> None:
        super().__init__(data, **options)  # type: ignore[arg-type]
        self.own_host = own_host

    def clean_target_url(self) -> str:
        """Return the target URL; raise ValidationError when it leads to this service."""
        target_url: str = self.cleaned_data["target_url"]
        validate_foreign(target_url, self.own_host, settings.ALLOWED_HOSTS)
        return target_url

    def focus_first_error(self) -> None:
        """Have the browser put the cursor where there is something to correct."""
        wrong = [name for name in self.fields if name in self.errors]
        self.fields[wrong[0] if wrong else "target_url"].widget.attrs["autofocus"] = True


class ShortUrlForm(TargetForm):
    """A target URL and, optionally, a custom key."""

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
        """Add an error where a key is asked for, and a short URL that has one already."""
        if self.cleaned_data.get("reuse") and self.cleaned_data.get("key"):
            self.add_error("key", "Leave it empty, or uncheck the box: what is reused has a key.")

    def save(self, owner_id: int | None) -> tuple[ShortUrl, bool]:
        """Return a short URL of this account, and whether it is new.

        Raises what operations.create() and operations.reuse() raise.
        """
        target_url, key = self.cleaned_data["target_url"], self.cleaned_data["key"]
        if self.cleaned_data["reuse"] and owner_id:
            return operations.reuse(target_url, owner_id=owner_id)
        return operations.create(target_url, key=key or None, owner_id=owner_id), True
