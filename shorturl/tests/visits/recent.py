"""Visits as a hit records them, which the roll-up has not moved yet."""

from datetime import UTC, date, datetime, time

from django.db.models import F
from django.utils import timezone

from shorturl.models import RecentVisits, ShortUrl, Visit
from shorturl.tests.callers import TARGET

PERSON = Visit("", "Firefox", "Linux", "Computer", is_bot=False)
NEWS = PERSON._replace(referrer="news.example")
BOT = Visit(browser="curl")
TODAY = timezone.now().date()


def add_recent(*visits: Visit, day: date = TODAY, hour: int = 0, key: str = "known") -> None:
    """Record visits of an hour in a row of RecentVisits, and count their hits."""
    ShortUrl.objects.get_or_create(key=key, target_url=TARGET)
    ShortUrl.objects.filter(key=key).update(hits=F("hits") + len(visits))
    starts_at = datetime.combine(day, time(hour), UTC)
    RecentVisits.objects.create(short_url_id=key, starts_at=starts_at, kinds=visits)
