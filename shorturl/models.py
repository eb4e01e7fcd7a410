"""The short URL: a key, the target it leads to, and how often it was followed."""

import hashlib
import secrets

from django.conf import settings
from django.contrib.postgres.indexes import HashIndex
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, Now

from shorturl import exceptions, keys
from shorturl.validators import TARGET_URL_MAX_LENGTH, validate_target_url

IDEMPOTENCY_KEY_MAX_LENGTH = 255

# The name of the CHECK that no code gets past, which is how a limit that is too low is told.
LIMIT_CONSTRAINT = "shorturl_shorturl_limit_ck"
# Django's name for the foreign key, checked at COMMIT: an owner may have been removed until then.
OWNER_CONSTRAINT = "shorturl_shorturl_owner_id_9c798b6c_fk_auth_user_id"
# The database's, at the moment that a row is looked at: a statement that had to wait for the row is
# older than that, and a transaction older still.
CLOCK: models.Func = models.Func(function="clock_timestamp", output_field=models.DateTimeField())


class LinkState(models.TextChoices):
    """What became of a short URL."""

    LIVE = "live"
    EXPIRED = "expired"
    USED_UP = "used up"
    DELETED = "deleted"


class ShortUrlQuerySet(models.QuerySet["ShortUrl"]):
    """Short URLs, which are deleted by marking them."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Take the short URLs out of service; their rows, and so their keys, stay taken.

        Returns the number of links deleted, in all and by model, as Django's delete() does;
        links that were deleted before do not count.
        """
        count = self.filter(deleted_at=None).update(deleted_at=Now())
        return count, {self.model._meta.label: count}

    def live(self) -> "ShortUrlQuerySet":
        """Return those that lead anywhere: not deleted, not expired, and not used up."""
        return self.filter(
            Q(deleted_at=None),
            Q(expires_at=None) | Q(expires_at__gt=CLOCK),
            Q(max_hits=None) | Q(hits__lt=F("max_hits")),
        )

    def with_state(self) -> "ShortUrlQuerySet":
        """Add `state`, which says why a short URL leads nowhere; LIVE are those of live()."""
        why = Case(
            When(deleted_at__isnull=False, then=Value(LinkState.DELETED)),
            When(expires_at__lte=CLOCK, then=Value(LinkState.EXPIRED)),
            When(hits__gte=F("max_hits"), then=Value(LinkState.USED_UP)),
            default=Value(LinkState.LIVE),
        )
        state = {"state": why}
        return self.annotate(**state)  # as in with_total_hits()

    def with_total_hits(self) -> "ShortUrlQuerySet":
        """Add `total_hits`, by which everybody reads a counter, whichever strategy counts.

        It is `hits` and, where there are any, the partial counts of `slotted_counter` or
        `append_only`. Both are read by one statement, and so from one snapshot: a hit that
        roll_up() moves meanwhile is seen once. Each link costs a look into an index; in it,
        `slotted_counter` leaves at most one row for each slot, and `append_only` one for each hit
        since the last roll-up.
        """
        parts = PartialCount.objects.filter(short_url=OuterRef("pk")).values("short_url")
        counted = Subquery(parts.annotate(counted=Sum("hits")).values("counted"))
        total = {"total_hits": F("hits") + Coalesce(counted, 0)}
        return self.annotate(**total)  # by this way mypy leaves it to the class what total_hits is

    def erase(self) -> int:
        """Remove the rows themselves, which frees their keys, and return how many.

        For tests and labs; a key that was passed on must not lead to somebody else's target.
        """
        for model in (PartialCount, VisitCount):
            parts = model._base_manager.using(self.db).filter(short_url__in=self.values("pk"))
            parts._raw_delete(self.db)
        return self._raw_delete(self.db)


class ShortUrl(models.Model):
    """A short URL; operations.py creates and resolves it.

    A deleted short URL keeps its row, so that the same unique constraint that keeps two links
    from having one key also keeps a deleted key from leading to somebody else's target.
    """

    KeyTaken = exceptions.KeyTaken
    KeySpaceExhausted = exceptions.KeySpaceExhausted
    Contended = exceptions.Contended
    Gone = exceptions.Gone
    LimitTooLow = exceptions.LimitTooLow
    QuotaExceeded = exceptions.QuotaExceeded

    key = models.CharField(max_length=keys.MAX_LENGTH, editable=False)
    target_url = models.CharField(
        "target URL", max_length=TARGET_URL_MAX_LENGTH, validators=[validate_target_url]
    )
    # 64 bits, and a CHECK (hits >= 0) in the database. Some strategies count in PartialCount
    # instead: read the total by with_total_hits().
    hits = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The account that made it; without one it is nobody's. The links of an account that is removed
    # become nobody's, too, as what was shared has to go on leading there.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    # How often it leads anywhere, and until when; NULL: always. No PositiveBigIntegerField, as to
    # add one is to check every row under a lock that lets nobody read.
    max_hits = models.BigIntegerField(
        "limit", null=True, blank=True, validators=[MinValueValidator(1)]
    )
    expires_at = models.DateTimeField("expiry", null=True, blank=True)

    total_hits: int  # after with_total_hits()
    state: str = LinkState.LIVE  # after with_state(); before, what a new one is

    objects = ShortUrlQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key"], name=keys.KEY_CONSTRAINT),
            models.CheckConstraint(
                condition=Q(max_hits__gte=1), name="shorturl_shorturl_max_hits_ck"
            ),
            models.CheckConstraint(condition=Q(hits__lte=F("max_hits")), name=LIMIT_CONSTRAINT),
        ]
        indexes = [
            # Somebody's own links, newest first. No hit changes anything in it.
            models.Index(
                fields=["owner", "id"],
                name="shorturl_shorturl_owner_ix",
                condition=Q(owner__isnull=False),
            ),
            # And those to one target, which can be longer than an entry of a B-tree.
            HashIndex(
                fields=["target_url"],
                name="shorturl_shorturl_target_ix",
                condition=Q(owner__isnull=False),
            ),
        ]
        verbose_name = "short URL"

    def __str__(self) -> str:
        return self.key

    def delete(
        self, using: str | None = None, keep_parents: bool = False
    ) -> tuple[int, dict[str, int]]:
        """Take the short URL out of service; its row, and so its key, stay taken.

        Returns the number of links deleted, in all and by model; 0 when somebody was first.
        """
        return ShortUrl.objects.using(using).filter(pk=self.pk).delete()


class PartialCount(models.Model):
    """Hits of a short URL that its own row does not show yet; roll_up() moves them there.

    A row with a slot is one of a link's slots (`slotted_counter`), one without a slot is a single
    hit (`append_only`). Where neither strategy ever counted, the table is empty. It is here all the
    same, so that another strategy can be chosen at any time, and nothing is lost by the change.
    """

    # No foreign key in the database: to check it, every hit would lock the row of its link, which
    # all hits of a hot link would do at once. Only erase() removes a link, and its parts first.
    short_url = models.ForeignKey(
        ShortUrl, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    slot = models.PositiveSmallIntegerField(null=True)
    hits = models.PositiveBigIntegerField()

    class Meta:
        # NULLs are distinct: single hits are many. It is also the index that a total is read by.
        constraints = [
            models.UniqueConstraint(
                fields=["short_url", "slot"], name="shorturl_partialcount_slot_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.hits} of short URL {self.short_url_id}"


class VisitCount(models.Model):
    """Visits of a short URL that are of one kind: so many of an hour, a day or a month, in UTC.

    All of a link's rows together have each of its recorded hits once. roll_up() makes hours into
    days, and days into months. A row without a unit is a single visit in the hour that `starts_at`
    says, which only `append_only` leaves, until the next roll-up. Texts come from visits.py:
    "" is what a visit did not say, or what is not known, OTHER what is on no list.
    """

    class Unit(models.TextChoices):
        """How long the time is that begins at `starts_at`."""

        HOUR = "h"
        DAY = "d"
        MONTH = "m"

    # As in PartialCount.
    short_url = models.ForeignKey(
        ShortUrl, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    unit = models.CharField(max_length=1, choices=Unit, null=True)  # noqa: DJ001
    starts_at = models.DateTimeField()
    referrer = models.CharField(max_length=253)  # the host
    browser = models.CharField(max_length=30)
    system = models.CharField(max_length=30)
    device = models.CharField(max_length=30)
    country = models.CharField(max_length=2)
    is_bot = models.BooleanField()
    hits = models.BigIntegerField(default=1, db_default=1)

    class Meta:
        constraints = [
            # NULLs are distinct: single visits are many. It is also the index for a link's page.
            models.UniqueConstraint(
                fields=[
                    "short_url",
                    "starts_at",
                    "unit",
                    "referrer",
                    "browser",
                    "system",
                    "device",
                    "country",
                    "is_bot",
                ],
                name="shorturl_visitcount_kind_uk",
            ),
            models.CheckConstraint(condition=Q(hits__gt=0), name="shorturl_visitcount_hits_ck"),
        ]
        # What is to be rolled up. In a B-tree an hour stands once for many rows.
        indexes = [models.Index(fields=["unit", "starts_at"], name="shorturl_visitcount_time_ix")]

    def __str__(self) -> str:
        return f"{self.hits} of short URL {self.short_url_id} at {self.starts_at}"


class ReuseClaim(models.Model):
    """A target that somebody has asked for; it stands for nothing but the lock on its row.

    Only the strategy reusing.on_conflict has rows here.
    """

    digest = models.BinaryField(primary_key=True)  # of owner and target

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class KeptAnswer(models.Model):
    """The answer to a request with an Idempotency-Key, for whoever sends it again.

    Without a status the request is not answered yet, which only `insert_first` knows.
    """

    KeyReused = exceptions.KeyReused
    InFlight = exceptions.InFlight

    caller = models.CharField(max_length=100)  # whose keys these are
    key = models.CharField(max_length=IDEMPOTENCY_KEY_MAX_LENGTH)
    fingerprint = models.CharField(max_length=64)  # of what was asked for
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(default="")
    location = models.TextField(default="")
    kept_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="shorturl_keptanswer_key_uk")
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.caller}"


class Spending(models.Model):
    """What a spender has used of a quota; `manage.py forget_spending` removes it after a day.

    Periods are the same for everybody and end by the database's clock: a day begins at midnight
    UTC, a minute at its first second. A row with a period is a counter of the one that began at
    `since`; a row without is a single create (`count_then_insert`).
    """

    spender = models.CharField(max_length=100)
    period = models.DurationField(null=True)
    since = models.DateTimeField(db_default=Now())
    spent = models.PositiveIntegerField(default=1)

    class Meta:
        # No index on `since`: every new counter would pay for it, and forget_spending, which takes
        # twice as long without one, still deletes from a million rows in statements of a second.
        # NULLs are distinct: single creates are many.
        constraints = [
            models.UniqueConstraint(
                fields=["spender", "period", "since"], name="shorturl_spending_period_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.spent} by {self.spender} since {self.since}"


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
