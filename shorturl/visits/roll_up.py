"""The roll-up of visits: recent ones into hours, hours into days, and days into months.

Crowded periods are compacted: hours when they are over, days and months when they are rolled up.
Hours of earlier days that have many rows keep only the rows of the device.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from django.conf import settings

from shorturl import cluster
from shorturl.models import VisitCount
from shorturl.visits import recent
from shorturl.visits.compaction import compact, downsample, in_batches

HOUR, DAY, MONTH = VisitCount.Unit
# The search ends after this many hours without a crowd: a day, because the timer may be daily.
CALM = 24
# The hours of today and of this many days before it keep all dimensions.
DETAILED_DAYS = 1


def roll_up_visits(now: datetime) -> int:
    """Roll up and compact the visits that are due at `now`; return how many rows were taken.

    Only whole days and months are rolled up, so no day is stored partly by the hour. Safe at any
    time, several times at once, and when killed midway: see compact() and cluster.roll_up().
    """
    # On Citus no statement may lock rows of several shards, and `one_transaction` records visits.
    taken = 0 if settings.DATABASE_CITUS else recent.roll_up()
    for unit, into, before in due(now):
        taken += compact(unit, into, before)
        taken += in_batches(partial(cluster.roll_up, unit, into, before))
    this_hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    taken += compact(HOUR, HOUR, this_hour, calm=CALM)
    return taken + downsample(this_hour.replace(hour=0) - timedelta(days=DETAILED_DAYS), calm=1)


def due(now: datetime) -> Iterator[tuple[str, str, datetime]]:
    """Yield each unit to roll up, the unit that its rows become, and the time before which."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    yield HOUR, DAY, midnight - timedelta(days=settings.SHORTURL_VISITS_HOURLY_DAYS)
    days = midnight - timedelta(days=settings.SHORTURL_VISITS_DAILY_DAYS)
    yield DAY, MONTH, days.replace(day=1)
