"""The token by which a program is admitted."""

import hashlib
import secrets

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ApiToken(models.Model):
    """What a program sends to be admitted by the API.

    The token itself is kept nowhere, only its digest. It is 256 random bits, which nobody guesses
    from a plain SHA-256; the slow hash that a password needs would only make every call slow.
    And as the digest is looked up in an index, how long that takes says nothing about the token.
    """

    # Found by whoever scans for leaked secrets, and part of the prefix that is shown.
    MARK = "shorturl_"
    PREFIX_LENGTH = len(MARK) + 8
    SCOPES = ("create", "read", "edit", "delete")  # each is a field can_…

    text = ""  # the token itself, after draw() and nowhere else: it is not a field

    name = models.CharField(
        max_length=100, unique=True, help_text="Who or what uses it, for example “backup”."
    )
    # It ends with the account: as a token of nobody it could suddenly do more.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Whose links it makes, sees and changes; without one, everybody's.",
    )
    can_create = models.BooleanField(default=True, db_default=True)
    can_read = models.BooleanField(default=True, db_default=True)
    can_edit = models.BooleanField(default=True, db_default=True)
    can_delete = models.BooleanField(default=True, db_default=True)
    prefix = models.CharField("begins with", max_length=PREFIX_LENGTH, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def clean(self) -> None:
        """Raise ValidationError for a name that a terminal would not show as it is."""
        if not self.name.isprintable():
            raise ValidationError(
                {"name": f"{self.name!r} contains a character that cannot be displayed."}
            )

    @property
    def scopes(self) -> list[str]:
        """What it may do."""
        return [scope for scope in self.SCOPES if getattr(self, f"can_{scope}")]

    def draw(self) -> None:
        """Become a new random token, whose `text` is to be shown now or never."""
        self.text = self.MARK + secrets.token_urlsafe(32)
        self.prefix, self.digest = self.text[: self.PREFIX_LENGTH], self.digest_of(self.text)

    @classmethod
    def valid(cls, text: str) -> "ApiToken | None":
        """Return the token whose text this is; None if it or its user is no longer admitted."""
        usable = Q(user=None) | Q(user__is_active=True)
        return cls.objects.filter(usable, digest=cls.digest_of(text), revoked_at=None).first()

    @staticmethod
    def digest_of(text: str) -> str:
        """Return what is stored of a token, in hexadecimal digits."""
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()
