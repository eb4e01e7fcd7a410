"""What is counted of a short URL beside its own row: parts of its hits, and its visits."""

from django.db import models
from django.db.models import Q

ANY = "*"  # in a dimension of a VisitCount: whatever it was; no header and no address makes it
EACH_ONCE = "device <> '*'"  # VisitCount.objects.each_once() in SQL


class PartialCount(models.Model):
    """Hits of a short URL that its own row does not show yet; roll_up() moves them there.

    A row with a slot is one of a link's slots (`slotted_counter`), one without a slot is a single
    hit (`append_only`). Where neither strategy ever counted, the table is empty. It is here all the
    same, so that another strategy can be chosen at any time, and nothing is lost by the change.
    """

    # No foreign key in the database: to check it, every hit would lock the row of its link, which
    # all hits of a hot link would do at once. Only erase() removes a link, and its parts first. By
    # the key, which never changes, all that is counted of a link can be on one node of a cluster.
    short_url = models.ForeignKey(
        "ShortUrl",
        models.DO_NOTHING,
        to_field="key",
        db_column="key",
        related_name="+",
        db_constraint=False,
        db_index=False,
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
        return f"{self.hits} of {self.short_url_id}"


class VisitCountQuerySet(models.QuerySet["VisitCount"]):
    """Rows of visits."""

    def each_once(self) -> "VisitCountQuerySet":
        """Leave the rows that have each visit once, of the dimension with the fewest values."""
        return self.exclude(device=ANY)


class VisitCount(models.Model):
    """Visits of a short URL that are of one kind: so many of an hour, a day or a month, in UTC.

    Its dimensions are referrer, browser, system, device and country. Their values come from
    visits.py: "" is what a visit did not say, or what is not known, OTHER what is on no list. Where
    a time has many kinds, compact() makes rows of one dimension each, with ANY in the other four.

    So of each dimension, the rows that have a value, and not ANY, have each of a link's recorded
    hits once: to count visits, add up the rows of one dimension, as each_once() does. A time can
    have rows of both sorts, where visits were recorded after it was compacted. coarsen() leaves to
    an hour the rows of its devices, while those of the other dimensions become the day's.

    roll_up() makes hours into days, and days into months. A row without a unit is a single visit in
    the hour that `starts_at` says, which only `append_only` leaves, until the next roll-up.
    """

    class Unit(models.TextChoices):
        """How long the time is that begins at `starts_at`."""

        HOUR = "h"
        DAY = "d"
        MONTH = "m"

    # As in PartialCount.
    short_url = models.ForeignKey(
        "ShortUrl",
        models.DO_NOTHING,
        to_field="key",
        db_column="key",
        related_name="+",
        db_constraint=False,
        db_index=False,
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

    objects = VisitCountQuerySet.as_manager()

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
        return f"{self.hits} of {self.short_url_id} at {self.starts_at}"
