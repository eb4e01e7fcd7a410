"""The visits on the page of a short URL: a chart of a range, and tables of its dimensions."""

from collections.abc import Iterator
from datetime import date, timedelta
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.http import QueryDict
from django.utils import timezone

from shorturl.models import Dimension, ShortUrl
from shorturl.pages.range_form import RangeForm
from shorturl.visits import statistics
from shorturl.visits.chart import Chart
from shorturl.visits.ranges import MAX_BUCKETS, Bucket, Range, range_of
from shorturl.visits.statistics import Statistics

TOP = 10  # values of each table; the others share one line
# The template's date formats.
FORMATS = {Bucket.HOUR: "j M Y, H:i", Bucket.DAY: "j M Y", Bucket.MONTH: "F Y"}
TITLES = {
    Dimension.REFERRER: "Referrers",
    Dimension.COUNTRY: "Countries",
    Dimension.BROWSER: "Browsers",
    Dimension.SYSTEM: "Systems",
    Dimension.DEVICE: "Devices",
}


class ValueLine(NamedTuple):
    value: str
    visits: int
    percent: float  # of all visits


class ValueTable(NamedTuple):
    title: str
    lines: list[ValueLine]


class Preset(NamedTuple):
    name: str
    chosen: Range
    by: Bucket

    @property
    def query(self) -> str:
        return urlencode({"from": self.chosen.first, "to": self.chosen.last, "by": self.by})


def visits_of(short_url: ShortUrl, given: QueryDict) -> tuple[dict[str, Any], HTTPStatus]:
    """Return the context and the status of the page; for an invalid range there is no chart."""
    usual = range_of(None, None, Bucket.DAY)
    neither = not given.get("from") and not given.get("to")
    data = {"from": str(usual.first), "to": str(usual.last)} if neither else given.dict()
    form = RangeForm({**data, "by": given.get("by") or Bucket.DAY})
    valid = form.is_valid()
    chosen: Range = form.cleaned_data["range"] if valid else usual
    by: Bucket = form.cleaned_data["by"] if valid else Bucket.DAY
    visits = statistics.read(short_url, chosen, by=by, dimensions=list(Dimension), top=TOP)
    context = {
        "form": form,
        "statistics": visits,
        "whole": chosen.first <= short_url.created_at.date(),
        "recording": bool(settings.SHORTURL_VISITS),
        "presets": list(presets(short_url, usual.last)),
        "shown": Preset(range_name(chosen), chosen, by),
        "chart": Chart(visits.series(chosen, by)),
        "date_format": FORMATS[by],
        "longer": [
            (unit, number) for unit in Bucket if unit != by and (number := visits.kept_by(unit))
        ],
        "tables": list(tables(visits)),
    }
    return context, HTTPStatus.OK if valid else HTTPStatus.UNPROCESSABLE_ENTITY


def tables(visits: Statistics) -> Iterator[ValueTable]:
    """Yield the tables of visits by people that have known values, and last the table of bots."""
    for dimension, title in TITLES.items():
        counts = {count.value: count.people for count in visits.values_of(dimension)}
        if any(value for value, people in counts.items() if people):
            unsaid = "none: typed in, or not sent" if title == "Referrers" else "unknown"
            yield ValueTable(title, lines(counts, visits.people, unsaid))
    if visits.bots:
        counts = {count.value: count.bots for count in visits.values_of(Dimension.BROWSER)}
        yield ValueTable("Bots", lines(counts, visits.bots, "unknown"))


def lines(counts: dict[str, int], total: int, unsaid: str) -> list[ValueLine]:
    first = sorted(filter(counts.get, counts), key=lambda value: (-counts[value], value))[:TOP]
    named = {value or unsaid: counts[value] for value in first}
    if others := total - sum(named.values()):
        named["all others"] = others
    return [
        ValueLine(value, visits, round(100 * visits / total, 1)) for value, visits in named.items()
    ]


def presets(short_url: ShortUrl, today: date) -> Iterator[Preset]:
    """Yield the common ranges that end today."""
    year = today.replace(year=today.year - 1, day=1)
    created = min(short_url.created_at.date(), today)
    for name, first, by in [
        ("2 days", today - timedelta(days=1), Bucket.HOUR),
        ("30 days", today - timedelta(days=29), Bucket.DAY),
        ("90 days", today - timedelta(days=89), Bucket.DAY),
        ("A year", (year + timedelta(days=31)).replace(day=1), Bucket.MONTH),
        ("All", created.replace(day=1), Bucket.MONTH),
    ]:
        chosen = Range(first, today)
        if chosen.number(by) <= MAX_BUCKETS:
            yield Preset(name, chosen, by)


def range_name(chosen: Range) -> str:
    """Return the heading of a range: "Last 30 days", or its days."""
    days = chosen.number(Bucket.DAY)
    if chosen.last == timezone.now().date():
        return "Today" if days == 1 else f"Last {days:,} days"
    first, last = (f"{day.day} {day:%b} {day.year}" for day in (chosen.first, chosen.last))
    return first if days == 1 else f"{first} – {last}"
