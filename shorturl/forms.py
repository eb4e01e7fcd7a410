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

    def save(self, owner_id: int | None) -> ShortUrl:
        """Return the new short URL of this account; raises what operations.create() raises."""
        data = self.cleaned_data
        return operations.create(data["target_url"], key=data["key"] or None, owner_id=owner_id)
