"""Visits to short URLs: the statement that counts a hit inserts its visit in RecentVisits.

The roll-up moves it to HourlyVisits and DailyVisits. Hours are kept for HOURLY_DAYS, days for
DAILY_YEARS and then as months.
"""

from datetime import date, timedelta
from typing import NamedTuple

from django.db import models
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Q

HOURLY_DAYS = 14
DAILY_YEARS = 2
OTHER = "other"  # a value that is not listed, or beyond MAX_VALUES
MAX_VALUES = 500  # of a dimension of a link on a day


class Visit(NamedTuple):
    """What is kept of a visit; visits/classification.py has the values."""

    referrer: str = ""  # a host in lower case; "" without a referrer
    browser: str = ""  # or the name of a bot; "" without a user-agent
    system: str = ""
    device: str = ""
    country: str = ""  # two letters of ISO 3166-1; "" if unknown
    is_bot: bool = True


class Dimension(models.TextChoices):
    REFERRER = "referrer"
    BROWSER = "browser"
    SYSTEM = "system"
    DEVICE = "device"
    COUNTRY = "country"


# A row for each dimension of each visit, of the rows of RecentVisits that a WITH calls `recent`.
RECENT_BY_DIMENSION = sql.SQL("""
    SELECT key, starts_at AS hour, (starts_at AT TIME ZONE 'UTC')::date AS day, dimension, value,
        (NOT (visit ->> 5)::boolean)::integer AS people, (visit ->> 5)::boolean::integer AS bots
    FROM recent, jsonb_array_elements(kinds) AS visits (visit), LATERAL (VALUES
        ('referrer', visit ->> 0), ('browser', visit ->> 1), ('system', visit ->> 2),
        ('device', visit ->> 3), ('country', visit ->> 4)) AS by_dimension (dimension, value)
""")


def hourly_since(today: date) -> date:
    """Return the first day whose visits are shown by the hour."""
    return today - timedelta(days=HOURLY_DAYS)


def daily_since(today: date) -> date:
    """Return the first day whose visits are shown by the day: the first of a month."""
    return today.replace(year=today.year - DAILY_YEARS, day=1)


class VisitsOfLink(models.Model):
    """A row of numbers of a link, which is found by the link's key."""

    # Without a foreign key constraint, whose check would lock the link's row for every hit. By the
    # key, so a cluster can distribute a link and its visits to one node.
    short_url = models.ForeignKey(
        "shorturl.ShortUrl",
        models.DO_NOTHING,
        to_field="key",
        db_column="key",
        related_name="+",
        db_constraint=False,
        db_index=False,
    )

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} of {self.short_url_id}"


class RecentVisits(VisitsOfLink):
    """The visits to a short URL that one statement has recorded, until the roll-up moves them."""

    starts_at = models.DateTimeField()  # the hour
    kinds = models.JSONField()  # an array for each visit, with the values of a Visit

    class Meta:
        indexes = [models.Index(fields=["short_url"], name="shorturl_recentvisits_key_ix")]


class CountedVisits(VisitsOfLink):
    people = models.BigIntegerField(default=0, db_default=0)
    bots = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        abstract = True


class HourlyVisits(CountedVisits):
    """How many visits a short URL had in an hour, in UTC. DailyVisits has the same visits."""

    hour = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["short_url", "hour"], name="shorturl_hourlyvisits_hour_uk"
            )
        ]
        # For the roll-up, which removes old hours.
        indexes = [models.Index(fields=["hour"], name="shorturl_hourlyvisits_hour_ix")]


class DailyVisits(CountedVisits):
    """How many visits with a value of a dimension a short URL had on a day, in UTC.

    Each dimension has each visit once, so the visits are the sum of any dimension. A month that
    began before daily_since() is in the rows of its first day.
    """

    day = models.DateField()
    dimension = models.CharField(max_length=8, choices=Dimension)
    value = models.CharField(max_length=253)

    class Meta:
        constraints = [
            # A link's page reads all days of a dimension.
            models.UniqueConstraint(
                fields=["short_url", "dimension", "day", "value"],
                name="shorturl_dailyvisits_value_uk",
            )
        ]
        indexes = [
            # For the roll-up, which moves days to the first of their month.
            models.Index(
                fields=["day"], name="shorturl_dailyvisits_day_ix", condition=~Q(day__day=1)
            ),
            # For some days of so many links that all links of these days are read faster.
            models.Index(fields=["day", "dimension"], name="shorturl_dailyvisits_range_ix"),
        ]
