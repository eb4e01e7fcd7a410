"""The short URL: a key, the target it leads to, and how often it was followed."""

from django.conf import settings
from django.contrib.postgres.indexes import HashIndex
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, Now

from shorturl import exceptions, keys
from shorturl.models.hit_counts import PartialCount, VisitCount
from shorturl.validators import TARGET_URL_MAX_LENGTH, validate_target_url

# The name of the CHECK that no code gets past, which is how a limit that is too low is told.
LIMIT_CONSTRAINT = "shorturl_shorturl_limit_ck"
# Django's name for the foreign key, checked at COMMIT: an owner may have been removed until then.
OWNER_CONSTRAINT = "shorturl_shorturl_owner_id_9c798b6c_fk_auth_user_id"
# The database's, at the moment that it received the statement, however long that then waits for a
# row: who was there before the end is served. now() would be the beginning of the transaction.
# It is STABLE: clock_timestamp() is not, and Citus takes it in no UPDATE.
CLOCK: models.Func = models.Func(
    function="statement_timestamp", output_field=models.DateTimeField()
)


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

    def with_total_hits(self, key: str | None = None) -> "ShortUrlQuerySet":
        """Add `total_hits`, by which everybody reads a counter, whichever strategy counts.

        With a `key` it is that link alone, if it is among them, and a cluster asks one node for it.

        It is `hits` and, where there are any, the partial counts of `slotted_counter` or
        `append_only`. Both are read by one statement, and so from one snapshot: a hit that
        roll_up() moves meanwhile is seen once. Each link costs a look into an index; in it,
        `slotted_counter` leaves at most one row for each slot, and `append_only` one for each hit
        since the last roll-up.
        """
        links = self if key is None else self.filter(key=key)
        whose = OuterRef("key") if key is None else key
        parts = PartialCount.objects.filter(short_url__key=whose)
        sums = parts.values("short_url").annotate(counted=Sum("hits"))
        total = {"total_hits": F("hits") + Coalesce(Subquery(sums.values("counted")), 0)}
        return links.annotate(**total)  # by this way mypy leaves it to the class what total_hits is

    def erase(self) -> int:
        """Remove the rows themselves, which frees their keys, and return how many.

        For tests and labs; a key that was passed on must not lead to somebody else's target. What
        is counted at that very moment would be left to whoever gets the key next; where that may
        be, delete() first.
        """
        for model in (PartialCount, VisitCount):
            parts = model._base_manager.using(self.db).filter(short_url__in=self.values("key"))
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
