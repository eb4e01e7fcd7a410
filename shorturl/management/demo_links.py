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

from shorturl.models import Visit, VisitCount
from shorturl.visits.classification import COMPUTER, OTHER, OTHER_FAMILY, PHONE, TABLET

T = TypeVar("T")

DAYS = 365
KINDS = 50  # of the visits to a link: compact() would reduce more

# The visits of a day as a share of the link's most visits, by the day of the year.
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
    key: str
    target_url: str
    most: int  # visits on a day
    course: Course
    title: str = ""
    tags: str = ""  # with spaces between them


DJANGO = "https://docs.djangoproject.com/en/5.2/"
POSTGRESQL = "https://www.postgresql.org/docs/18/"
PYTHON = "https://docs.python.org/3/"
MDN = "https://developer.mozilla.org/en-US/docs/"
CATALOGUE = "https://example.com/catalogue/"
# fmt: off
LINKS = [
    DemoLink("demo-models", f"{DJANGO}topics/db/models/", 90, steady, "Django: models", "django"),
    DemoLink("demo-f", f"{DJANGO}ref/models/expressions/", 60, rising,
        "Django: F() expressions", "django concurrency"),
    DemoLink("demo-atomic", f"{DJANGO}topics/db/transactions/", 70, once,
        "Django: transactions", "django concurrency"),
    DemoLink("demo-tests", f"{DJANGO}topics/testing/", 30, steady, "Django: testing", "django"),
    DemoLink("demo-mvcc", f"{POSTGRESQL}mvcc.html", 120, rising,
        "PostgreSQL: concurrency control", "postgresql concurrency"),
    DemoLink("demo-locks", f"{POSTGRESQL}explicit-locking.html", 80, fading,
        "PostgreSQL: explicit locking", "postgresql concurrency"),
    DemoLink("demo-insert", f"{POSTGRESQL}sql-insert.html", 50, steady,
        "PostgreSQL: INSERT and ON CONFLICT", "postgresql"),
    DemoLink("demo-explain", f"{POSTGRESQL}using-explain.html", 40, fading,
        "PostgreSQL: EXPLAIN", "postgresql"),
    DemoLink("demo-wal", f"{POSTGRESQL}wal-intro.html", 15, steady,
        "PostgreSQL: write-ahead log", "postgresql"),
    DemoLink("demo-python", f"{PYTHON}tutorial/", 100, steady, "Python: the tutorial", "python"),
    DemoLink("demo-asyncio", f"{PYTHON}library/asyncio.html", 45, fading,
        "Python: asyncio", "python concurrency"),
    DemoLink("demo-threads", f"{PYTHON}library/threading.html", 35, new,
        "Python: threads", "python concurrency"),
    DemoLink("demo-http", f"{MDN}Web/HTTP", 55, steady, "MDN: HTTP", "web"),
    DemoLink("demo-svg", f"{MDN}Web/SVG", 20, rising, "MDN: SVG", "web"),
    DemoLink("demo-rfc", "https://www.rfc-editor.org/rfc/rfc9110", 25, once,
        "RFC 9110: HTTP semantics", "web"),
    DemoLink("demo-spring", f"{CATALOGUE}spring?from=newsletter", 150, once,
        "Spring catalogue", "catalogue newsletter"),
    DemoLink("demo-summer", f"{CATALOGUE}summer?from=newsletter", 110, fading,
        "Summer catalogue", "catalogue newsletter"),
    DemoLink("demo-winter", f"{CATALOGUE}winter?from=newsletter", 90, new,
        "Winter catalogue", "catalogue newsletter"),
    DemoLink("demo-terms", "https://example.com/terms", 2, steady, "Terms and conditions"),
    DemoLink("demo-draft", "https://example.com/drafts/1", 0, steady),
    DemoLink("demo-poster", "https://example.org/poster", 0, steady,
        "QR code of the poster", "print"),
    DemoLink("demo-card", "https://example.net/card", 0, steady,
        "QR code of the business card", "print"),
]
# fmt: on

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
    country = one_of(COUNTRIES, random)
    if random.random() < BOTS_SHARE:
        return Visit("", one_of(BOTS, random), OTHER_FAMILY, OTHER_FAMILY, country, is_bot=True)
    browser, system, device = one_of(DEVICES, random)
    return Visit(one_of(REFERRERS, random), browser, system, device, country, is_bot=False)


def one_of(weights: Mapping[T, int], random: Random) -> T:
    (chosen,) = random.choices(list(weights), list(weights.values()))
    return chosen
