"""Ranges of days in UTC, and their hours, days or months."""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.utils import timezone

from shorturl.links.validators import shortened

MAX_BUCKETS = 1_000  # more bars would be too thin to see
DEFAULT_DAYS = 30


class Bucket(StrEnum):
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class Range(NamedTuple):
    first: date
    last: date  # included

    @property
    def begins(self) -> datetime:
        return datetime.combine(self.first, time.min, UTC)

    @property
    def ends(self) -> datetime:
        return datetime.combine(self.last, time.max, UTC)

    def count_buckets(self, unit: Bucket) -> int:
        """Return how many hours, days or months the range overlaps."""
        if unit == Bucket.MONTH:
            years = self.last.year - self.first.year
            return 12 * years + self.last.month - self.first.month + 1
        days = (self.last - self.first).days + 1
        return days * 24 if unit == Bucket.HOUR else days

    def buckets(self, unit: Bucket) -> list[datetime]:
        """Return when each hour, day or month of the range begins."""
        if unit == Bucket.MONTH:
            first = self.first.year * 12 + self.first.month - 1  # months since the year 0
            months = range(first, first + self.count_buckets(unit))
            return [datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in months]
        step = timedelta(hours=1) if unit == Bucket.HOUR else timedelta(days=1)
        return [self.begins + step * number for number in range(self.count_buckets(unit))]


def read_date(value: str) -> date:
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        message = f"{shortened(value)!r} is not a date: write it as 2026-01-31."
        raise ValidationError(message, code="date") from error


def range_of(first: date | None, last: date | None, by: Bucket | None) -> Range:
    """Return the range from `first` to `last`, by default of DEFAULT_DAYS until today.

    Raises ValidationError with an error_dict: with `from` if the range ends before it begins, with
    `by` if it has more than MAX_BUCKETS of the unit `by`.
    """
    last = last or timezone.now().date()
    default_length = timedelta(days=DEFAULT_DAYS - 1)
    first = first or last - min(default_length, last - date.min)  # there is no earlier date
    if first > last:
        message = f"{first} is after {last}: begin with the earlier day."
        raise ValidationError({"from": ValidationError(message, code="turned_round")})
    days = Range(first, last)
    if by and days.count_buckets(by) > MAX_BUCKETS:
        message = (
            f"From {first} to {last} there are {days.count_buckets(by):,} {by}s, and at most "
            f"{MAX_BUCKETS:,} are listed: choose fewer days, or a longer unit."
        )
        raise ValidationError({"by": ValidationError(message, code="too_many")})
    return days
