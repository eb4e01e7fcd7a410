"""The short URL: its key, its target URL, and its hits; and banned domains."""

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, HashIndex
from django.core.validators import MinValueValidator
from django.db import models
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now, Upper

from shorturl import cluster
from shorturl.links import keys
from shorturl.links.labels import TAG_MAX_LENGTH, TITLE_MAX_LENGTH
from shorturl.links.validators import HOST_MAX_LENGTH, TARGET_URL_MAX_LENGTH

# The name of the CHECK that a limit below the hits violates.
LIMIT_CONSTRAINT = "shorturl_shorturl_limit_ck"
# Django's name for the foreign key. COMMIT checks it, so the owner can be removed until then.
OWNER_CONSTRAINT = "shorturl_shorturl_owner_id_9c798b6c_fk_auth_user_id"
# When the database received the statement. now() would be the begin of the transaction, and a
# cluster refuses clock_timestamp() in an UPDATE, because it is not STABLE.
CLOCK = models.Func(function="statement_timestamp", output_field=models.DateTimeField())

# Links without an event of their expiry, whether it has passed or not.
EXPIRY_UNTOLD = Q(deleted_at=None, expires_at__isnull=False) & ~Q(expiry_told=F("expires_at"))

# The condition of live(), for the SQL of strategies.
LIVE = sql.SQL("""deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits < max_hits)""")


class LinkState(models.TextChoices):
    LIVE = "live"
    EXPIRED = "expired"
    USED_UP = "used up"
    DELETED = "deleted"


class ShortUrlQuerySet(models.QuerySet["ShortUrl"]):
    """Short URLs; delete() only marks them as deleted, so that their keys stay taken."""

    def delete(self) -> tuple[int, dict[str, int]]:
        count = self.filter(deleted_at=None).update(deleted_at=Now())
        return count, {self.model._meta.label: count}

    def lock(self) -> None:
        """Lock the rows until the COMMIT, in the order of their keys.

        Whatever writes several links in one transaction does so, and therefore cannot deadlock.
        A cluster refuses to lock links of many keys.
        """
        if not cluster.is_distributed():
            list(self.order_by("key").select_for_update(no_key=True).values_list("pk"))

    def live(self) -> "ShortUrlQuerySet":
        """Return those that lead to their targets: not deleted, not expired, and not used up."""
        return self.filter(
            Q(deleted_at=None),
            Q(expires_at=None) | Q(expires_at__gt=CLOCK),
            Q(max_hits=None) | Q(hits__lt=F("max_hits")),
        )

    def with_state(self) -> "ShortUrlQuerySet":
        """Add `state`, a LinkState; it is LIVE for the links of live()."""
        why = Case(
            When(deleted_at__isnull=False, then=Value(LinkState.DELETED)),
            When(expires_at__lte=CLOCK, then=Value(LinkState.EXPIRED)),
            When(hits__gte=F("max_hits"), then=Value(LinkState.USED_UP)),
            default=Value(LinkState.LIVE),
        )
        state = {"state": why}
        return self.annotate(**state)  # by keyword mypy would infer another type for `state`

    def matching(self, filters: Mapping[str, Any], host: str) -> "ShortUrlQuerySet":
        """Return those that match all of the filters that are not empty: q, tags and state.

        `q` is a part of the key, the target or the title, or a short URL of this `host`. A link has
        to have all of the `tags`.
        """
        links = self
        if key := keys.key_of_address(filters["q"], host):
            links = links.filter(key=key)
        elif text := filters["q"]:
            links = links.filter(
                Q(key__icontains=text) | Q(target_url__icontains=text) | Q(title__icontains=text)
            )
        if filters["tags"]:
            links = links.filter(tags__contains=filters["tags"])
        if filters["state"]:
            links = links.with_state().filter(Q(state=filters["state"]))
        return links


class ShortUrl(models.Model):
    """A short URL. A deleted one keeps its row, so its key is never used again."""

    # Compared bytewise: a new C library, which may sort otherwise, leaves the index as it is.
    key = models.CharField(max_length=keys.MAX_LENGTH, editable=False, db_collation="C")
    target_url = models.CharField("target URL", max_length=TARGET_URL_MAX_LENGTH)
    hits = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    # When the account is removed, its links stay in service without an owner.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    # How often and until when the link leads to its target; NULL: no limit.
    max_hits = models.BigIntegerField(
        "limit", null=True, blank=True, validators=[MinValueValidator(1)]
    )
    expires_at = models.DateTimeField("expiry", null=True, blank=True)
    # Whether a redirect adds the query of the short URL to the target's.
    forward_query = models.BooleanField(default=False, db_default=False)
    # As labels.py returns them; tags are NULL for no tags.
    title = models.CharField(max_length=TITLE_MAX_LENGTH, blank=True, default="", db_default="")
    tags = ArrayField(models.CharField(max_length=TAG_MAX_LENGTH), null=True, blank=True)
    expiry_told = models.DateTimeField(null=True, editable=False)  # the last with an event

    state: str = LinkState.LIVE  # set by with_state(); a new link is live

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
            # For an owner's links, newest first. No hit changes the index.
            models.Index(
                fields=["owner", "id"],
                name="shorturl_shorturl_owner_ix",
                condition=Q(owner__isnull=False),
            ),
            # For an owner's link to one target, which can be longer than a B-tree entry.
            HashIndex(
                fields=["target_url"],
                name="shorturl_shorturl_target_ix",
                condition=Q(owner__isnull=False),
            ),
            # For the links with a tag. A link without tags has no entry.
            GinIndex(
                fields=["tags"], name="shorturl_shorturl_tags_ix", condition=Q(tags__isnull=False)
            ),
            # For keys that differ only in case. No hit changes the index.
            models.Index(Upper("key"), name="shorturl_shorturl_case_ix"),
            # For expiries without an event. No hit changes the index.
            models.Index(
                fields=["expires_at"], name="shorturl_shorturl_expiry_ix", condition=EXPIRY_UNTOLD
            ),
        ]
        verbose_name = "short URL"

    def __str__(self) -> str:
        return self.key

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Leave out Django's queries for a form: the statement that writes the link checks it."""

    def delete(
        self, using: str | None = None, keep_parents: bool = False
    ) -> tuple[int, dict[str, int]]:
        """Mark the short URL as deleted, as the queryset's delete() does."""
        return ShortUrl.objects.using(using).filter(pk=self.pk).delete()


class BannedDomain(models.Model):
    """A domain to which, with its subdomains, no redirect leads; `manage.py ban` adds it."""

    domain = models.CharField(max_length=HOST_MAX_LENGTH, primary_key=True)  # in ASCII
    banned_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.domain
