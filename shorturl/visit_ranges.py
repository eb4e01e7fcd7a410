"""Ranges of days, in UTC, and the hours, days or months that they are counted by."""

import re
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.utils import timezone

from shorturl.validators import shortened

# More bars cannot be told apart, and more rows are not read by a person.
BUCKETS_MAX = 1_000
DEFAULT_DAYS = 30
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Unit(StrEnum):
    """What visits are counted by."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class Range(NamedTuple):
    """The days from the first to the last, both included."""

    first: date
    last: date

    @property
    def begins(self) -> datetime:
        """Its first moment."""
        return datetime.combine(self.first, time.min, UTC)

    @property
    def ends(self) -> datetime:
        """Its last moment."""
        return datetime.combine(self.last, time.max, UTC)

    def number(self, unit: Unit) -> int:
        """Return how many hours, days or months it has, or touches."""
        if unit == Unit.MONTH:
            years = self.last.year - self.first.year
            return 12 * years + self.last.month - self.first.month + 1
        days = (self.last - self.first).days + 1
        return days * 24 if unit == Unit.HOUR else days

    def buckets(self, unit: Unit) -> list[datetime]:
        """Return when each of them begins."""
        if unit == Unit.MONTH:
            months = (
                self.first.year * 12 + self.first.month - 1 + n for n in range(self.number(unit))
            )
            return [datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in months]
        step = timedelta(hours=1) if unit == Unit.HOUR else timedelta(days=1)
        return [self.begins + step * number for number in range(self.number(unit))]


def read_date(value: str) -> date:
    """Return the date that a person or a program has written; raise ValidationError."""
    try:
        if not DATE.fullmatch(value):
            raise ValueError
        return date.fromisoformat(value)
    except ValueError as error:
        message = f"{shortened(value)!r} is not a date: write it as 2026-01-31."
        raise ValidationError(message, code="date") from error


def range_of(first: date | None, last: date | None, by: Unit | None) -> Range:
    """Return the range: without a last day until today, without a first one DEFAULT_DAYS.

    Raises ValidationError for one that is turned round, or that has more than BUCKETS_MAX to count
    `by`. Its `field` is the input that is wrong: from or by.
    """
    last = last or timezone.now().date()
    first = first or last - min(timedelta(days=DEFAULT_DAYS - 1), last - date.min)
    if first > last:
        message = f"{first} is after {last}: begin with the earlier day."
        raise ValidationError({"from": ValidationError(message, code="turned_round")})
    found = Range(first, last)
    if by and found.number(by) > BUCKETS_MAX:
        message = (
            f"From {first} to {last} there are {found.number(by):,} {by}s, and at most "
            f"{BUCKETS_MAX:,} are listed: choose fewer days, or a longer unit."
        )
        raise ValidationError({"by": ValidationError(message, code="too_many")})
    return found
