"""The visits to a short URL: their kinds, their numbers by the hour, and recent ones."""

from typing import Any, NamedTuple, Self

from django.db import models
from django.db.models import Q

ANY = "*"  # any value, in a dimension of a VisitCount; no header and no address yields it
EACH_ONCE = "device <> '*'"  # VisitCount.objects.each_once() in SQL
DIMENSIONS = ("referrer", "browser", "system", "device", "country")


Counted = tuple[int, str, str, int]  # id, key, target_url, hits: of a link after its counted hits


class Visit(NamedTuple):
    """The kind of a visit; visits/classification.py has the values."""

    referrer: str = ""  # a host in lower case; "" without a referrer
    browser: str = ""  # or the name of a bot; "" without a user-agent
    system: str = ""
    device: str = ""
    country: str = ""  # two letters of ISO 3166-1; "" if unknown
    is_bot: bool = True


class EachOnce(models.QuerySet[Any]):
    def each_once(self) -> Self:
        """Return the rows of one dimension, the device, which has the fewest values."""
        return self.exclude(device=ANY)


class Visits(models.Model):
    """The number of visits of one kind to a short URL in an hour, a day or a month, in UTC.

    The dimensions are referrer, browser, system, device and country. classification.py yields their
    values: "" is unknown or was not sent, OTHER is on no list. When a period has many kinds of
    visits, compact() replaces their rows by rows of one dimension each, with ANY in the other four.

    For each dimension, the rows whose value is not ANY include each recorded visit once. So to
    count visits, add up the rows of one dimension, as each_once() does. A period has both sorts of
    rows if visits were recorded after it was compacted. downsample() keeps an hour's rows of the
    device, and adds the rows of the other dimensions to the day.
    """

    class Unit(models.TextChoices):
        HOUR = "h"
        DAY = "d"
        MONTH = "m"

    # Without a foreign key constraint, whose check would lock the link's row for every hit. Only
    # erase() removes a link, and removes its visits first. The column refers to the key, which
    # never changes, so a cluster can distribute a link and its visits to one node.
    short_url = models.ForeignKey(
        "shorturl.ShortUrl",
        models.DO_NOTHING,
        to_field="key",
        db_column="key",
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    unit = models.CharField(max_length=1, choices=Unit)
    starts_at = models.DateTimeField()
    referrer = models.CharField(max_length=253)  # the host
    browser = models.CharField(max_length=30)
    system = models.CharField(max_length=30)
    device = models.CharField(max_length=30)
    country = models.CharField(max_length=2)
    is_bot = models.BooleanField()
    hits = models.BigIntegerField(default=1, db_default=1)

    objects = EachOnce.as_manager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.hits} of {self.short_url_id} at {self.starts_at}"


class VisitCount(Visits):
    """Stored numbers of visits. RecordedVisits has them and the visits of RecentVisits.

    roll_up_visits() adds hours up to days, and days to months.
    """

    class Meta:
        constraints = [
            # A link's page reads it.
            models.UniqueConstraint(
                fields=["short_url", "starts_at", "unit", *DIMENSIONS, "is_bot"],
                name="shorturl_visitcount_kind_uk",
            ),
            models.CheckConstraint(condition=Q(hits__gt=0), name="shorturl_visitcount_hits_ck"),
        ]
        # For roll-ups. A B-tree stores an hour once for many rows.
        indexes = [models.Index(fields=["unit", "starts_at"], name="shorturl_visitcount_time_ix")]


class RecentVisits(models.Model):
    """Visits to a short URL that one statement has recorded; roll_up_visits() moves them.

    They are their hour's visits in VisitCount then. Until then RecordedVisits has them.
    """

    short_url = models.ForeignKey(  # as in Visits
        "shorturl.ShortUrl",
        models.DO_NOTHING,
        to_field="key",
        db_column="key",
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    starts_at = models.DateTimeField()  # the hour
    kinds = models.JSONField()  # an array for each visit, with the values of a Visit

    class Meta:
        indexes = [models.Index(fields=["short_url"], name="shorturl_recentvisits_key_ix")]

    def __str__(self) -> str:
        return f"{len(self.kinds)} of {self.short_url_id} at {self.starts_at}"


class RecordedVisits(Visits):
    """A view of all visits: the rows of VisitCount, and a row for each visit of RecentVisits."""

    class Meta:
        managed = False
