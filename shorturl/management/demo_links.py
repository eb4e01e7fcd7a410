"""The links of `manage.py demo`, and a year of visits to them, drawn from a seed.

The same seed draws the same visits on the same day. The targets are public manuals and example.com.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time, timedelta
from random import Random
from typing import Any, NamedTuple, TypeVar

from django.conf import settings

from shorturl.models import VisitCount
from shorturl.visits.classification import COMPUTER, OTHER, OTHER_FAMILY, PHONE, TABLET, Visit

T = TypeVar("T")

DAYS = 365
KINDS = 50  # of the visits to a link: compact() would reduce more

# The share of a link's most visits, from 0 to 1, by the day of the year.
Course = Callable[[int], float]


def steady(day: int) -> float:
    return 0.9


def rising(day: int) -> float:
    return 0.15 + 0.85 * day / DAYS


def fading(day: int) -> float:
    return 1 / (1 + math.exp((day - 320) / 12))


def once(day: int) -> float:
    """Few visits, with one peak."""
    return 0.06 + (math.exp((240 - day) / 9) if day >= 240 else 0)


def new(day: int) -> float:
    """No visits before the last six weeks."""
    return float(day >= DAYS - 45)


class DemoLink(NamedTuple):
    """A link, its most visits on a day, and their course over the year."""

    key: str
    target_url: str
    most: int
    course: Course


LINKS = [
    DemoLink("demo-models", "https://docs.djangoproject.com/en/5.2/topics/db/models/", 90, steady),
    DemoLink("demo-f", "https://docs.djangoproject.com/en/5.2/ref/models/expressions/", 60, rising),
    DemoLink(
        "demo-atomic", "https://docs.djangoproject.com/en/5.2/topics/db/transactions/", 70, once
    ),
    DemoLink("demo-tests", "https://docs.djangoproject.com/en/5.2/topics/testing/", 30, steady),
    DemoLink("demo-mvcc", "https://www.postgresql.org/docs/18/mvcc.html", 120, rising),
    DemoLink("demo-locks", "https://www.postgresql.org/docs/18/explicit-locking.html", 80, fading),
    DemoLink("demo-insert", "https://www.postgresql.org/docs/18/sql-insert.html", 50, steady),
    DemoLink("demo-explain", "https://www.postgresql.org/docs/18/using-explain.html", 40, fading),
    DemoLink("demo-wal", "https://www.postgresql.org/docs/18/wal-intro.html", 15, steady),
    DemoLink("demo-python", "https://docs.python.org/3/tutorial/", 100, steady),
    DemoLink("demo-asyncio", "https://docs.python.org/3/library/asyncio.html", 45, fading),
    DemoLink("demo-threads", "https://docs.python.org/3/library/threading.html", 35, new),
    DemoLink("demo-http", "https://developer.mozilla.org/en-US/docs/Web/HTTP", 55, steady),
    DemoLink("demo-svg", "https://developer.mozilla.org/en-US/docs/Web/SVG", 20, rising),
    DemoLink("demo-rfc", "https://www.rfc-editor.org/rfc/rfc9110", 25, once),
    DemoLink("demo-spring", "https://example.com/catalogue/spring?from=newsletter", 150, once),
    DemoLink("demo-summer", "https://example.com/catalogue/summer?from=newsletter", 110, fading),
    DemoLink("demo-winter", "https://example.com/catalogue/winter?from=newsletter", 90, new),
    DemoLink("demo-terms", "https://example.com/terms", 2, steady),
    DemoLink("demo-draft", "https://example.com/drafts/1", 0, steady),
    DemoLink("demo-poster", "https://example.org/poster", 0, steady),
    DemoLink("demo-card", "https://example.net/card", 0, steady),
]

# The title of a link, and its tags with spaces between them.
LABELS = {
    "demo-models": ("Django: models", "django"),
    "demo-f": ("Django: F() expressions", "django concurrency"),
    "demo-atomic": ("Django: transactions", "django concurrency"),
    "demo-tests": ("Django: testing", "django"),
    "demo-mvcc": ("PostgreSQL: concurrency control", "postgresql concurrency"),
    "demo-locks": ("PostgreSQL: explicit locking", "postgresql concurrency"),
    "demo-insert": ("PostgreSQL: INSERT and ON CONFLICT", "postgresql"),
    "demo-explain": ("PostgreSQL: EXPLAIN", "postgresql"),
    "demo-wal": ("PostgreSQL: write-ahead log", "postgresql"),
    "demo-python": ("Python: the tutorial", "python"),
    "demo-asyncio": ("Python: asyncio", "python concurrency"),
    "demo-threads": ("Python: threads", "python concurrency"),
    "demo-http": ("MDN: HTTP", "web"),
    "demo-svg": ("MDN: SVG", "web"),
    "demo-rfc": ("RFC 9110: HTTP semantics", "web"),
    "demo-spring": ("Spring catalogue", "catalogue newsletter"),
    "demo-summer": ("Summer catalogue", "catalogue newsletter"),
    "demo-winter": ("Winter catalogue", "catalogue newsletter"),
    "demo-terms": ("Terms and conditions", ""),
    "demo-poster": ("QR code of the poster", "print"),
    "demo-card": ("QR code of the business card", "print"),
}

# The values to draw, with their weights.
REFERRERS = {
    "": 34, "www.google.com": 17, "news.ycombinator.com": 9, "github.com": 8, "www.reddit.com": 7,
    "t.co": 5, "stackoverflow.com": 5, "duckduckgo.com": 4, "www.linkedin.com": 3, "lobste.rs": 2,
    "www.bing.com": 2, "mastodon.social": 1, "www.youtube.com": 1, "blog.example.com": 1, OTHER: 1,
}  # fmt: skip
DEVICES = {
    ("Chrome", "Android", PHONE): 24,
    ("Chrome", "Windows", COMPUTER): 20,
    ("Safari", "iOS", PHONE): 18,
    ("Chrome", "macOS", COMPUTER): 8,
    ("Edge", "Windows", COMPUTER): 6,
    ("Firefox", "Linux", COMPUTER): 6,
    ("Safari", "macOS", COMPUTER): 6,
    ("Firefox", "Windows", COMPUTER): 5,
    ("Chrome", "Linux", COMPUTER): 3,
    ("Samsung Internet", "Android", PHONE): 3,
    ("Safari", "iOS", TABLET): 2,
    (OTHER_FAMILY, OTHER_FAMILY, OTHER_FAMILY): 1,
}
COUNTRIES = {
    "US": 26, "DE": 13, "IN": 12, "GB": 8, "FR": 6, "BR": 5, "CA": 4, "NL": 4, "PL": 3, "JP": 3,
    "ES": 3, "IT": 3, "SE": 2, "AU": 2, "KE": 1, "": 5,
}  # fmt: skip
BOTS = {
    "Googlebot": 28, "bingbot": 14, "Slackbot": 10, "Twitterbot": 8, "GPTBot": 9, "ClaudeBot": 6,
    "AhrefsBot": 7, "curl": 6, "Discordbot": 4, "TelegramBot": 3, OTHER_FAMILY: 5,
}  # fmt: skip
BOTS_SHARE = 0.16
# The weights of the hours, in UTC.
HOURS = [3, 2, 2, 2, 2, 3, 4, 6, 8, 9, 9, 9, 8, 10, 11, 11, 10, 9, 8, 7, 7, 6, 5, 4]


def visits(link: DemoLink, seed: int, until: datetime) -> list[dict[str, Any]]:
    """Return the rows of a year of visits up to the hour `until`, as VisitCount has them."""
    # Rows of hours for the last days, rows of days before, as if rolled up.
    kept = settings.SHORTURL_VISITS_HOURLY_DAYS
    random = Random(f"{seed} {link.key}")  # noqa: S311 - not for secrets
    kinds = [draw(random) for _ in range(KINDS)]
    counts: Counter[tuple[str, datetime, Visit]] = Counter()
    for day in range(DAYS):
        date = until.date() - timedelta(days=DAYS - 1 - day)
        begins = datetime.combine(date, time.min, UTC)
        mean = link.most * link.course(day) * (0.55 if date.weekday() >= 5 else 1)
        many = max(round(random.gauss(mean, mean**0.5)), 0)
        hours = random.choices(range(24), HOURS, k=many)
        for hour, kind in zip(hours, random.choices(kinds, k=many), strict=True):
            at = begins + timedelta(hours=hour)
            if day < DAYS - kept:
                counts[VisitCount.Unit.DAY, begins, kind] += 1
            elif at <= until:
                counts[VisitCount.Unit.HOUR, at, kind] += 1
    return [
        {"key": link.key, "unit": unit, "starts_at": at, "hits": hits, **kind._asdict()}
        for (unit, at, kind), hits in counts.items()
    ]


def draw(random: Random) -> Visit:
    """Draw the kind of one visit."""
    country = one_of(COUNTRIES, random)
    if random.random() < BOTS_SHARE:
        return Visit("", one_of(BOTS, random), OTHER_FAMILY, OTHER_FAMILY, country, is_bot=True)
    browser, system, device = one_of(DEVICES, random)
    return Visit(one_of(REFERRERS, random), browser, system, device, country, is_bot=False)


def one_of(weights: Mapping[T, int], random: Random) -> T:
    """Draw one of the values by their weights."""
    (chosen,) = random.choices(list(weights), list(weights.values()))
    return chosen
