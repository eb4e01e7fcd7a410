"""The bearer tokens of the API."""

import hashlib
import secrets

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

NAME_CONSTRAINT = "shorturl_apitoken_name_uk"
# Django's name for the foreign key. COMMIT checks it, so the user can be removed until then.
USER_CONSTRAINT = "shorturl_apitoken_user_id_12ba1862_fk_auth_user_id"


class ApiToken(models.Model):
    """A bearer token of the API, of which the database stores only the SHA-256 digest.

    The token has 256 random bits, so it cannot be guessed from a fast hash.
    """

    MARK = "shorturl_"  # by which scanners find leaked tokens
    PREFIX_LENGTH = len(MARK) + 8
    SCOPES = ("create", "read", "edit", "delete")  # each has a field can_…

    text = ""  # set_random_text() sets it; not a field, so it is never stored

    name = models.CharField(max_length=100, help_text="Who or what uses it, for example “backup”.")
    # CASCADE: a token without a user could reach every link.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Limits the token to this user's links; empty gives access to all links.",
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
        # Unique for each user, because users do not see the names of other users' tokens.
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"], name=NAME_CONSTRAINT, nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def clean(self) -> None:
        if not self.name.isprintable():
            message = f"{self.name!r} contains a character that cannot be displayed."
            raise ValidationError({"name": message})

    @property
    def scopes(self) -> list[str]:
        return [scope for scope in self.SCOPES if getattr(self, f"can_{scope}")]

    def set_random_text(self) -> None:
        """Give the token a random text."""
        self.text = self.MARK + secrets.token_urlsafe(32)
        self.prefix = self.text[: self.PREFIX_LENGTH]
        self.digest = self.digest_of(self.text)

    @classmethod
    def find_valid(cls, text: str) -> "ApiToken | None":
        """Return the token with this text; None if it is unknown, revoked, or its user inactive."""
        usable = Q(user=None) | Q(user__is_active=True)
        return cls.objects.filter(usable, digest=cls.digest_of(text), revoked_at=None).first()

    @staticmethod
    def digest_of(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()
