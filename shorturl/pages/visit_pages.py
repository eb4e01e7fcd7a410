"""The visits on the page of a short URL: a chart of a range, and tables of its dimensions."""

from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.http import QueryDict

from shorturl.models import ShortUrl
from shorturl.pages.forms import RangeForm
from shorturl.visits import statistics
from shorturl.visits.chart import Chart
from shorturl.visits.ranges import BUCKETS_MAX, Bucket, Range, range_of
from shorturl.visits.statistics import Dimension, Statistics

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
UNSAID = {Dimension.REFERRER: "none: typed in, or not sent"}


class ValueLine(NamedTuple):
    value: str
    visits: int
    percent: float  # of all visits


class ValueTable(NamedTuple):
    title: str
    lines: list[ValueLine]


class Preset(NamedTuple):
    name: str
    query: str
    chosen: bool


def visits_of(short_url: ShortUrl, given: QueryDict) -> tuple[dict[str, Any], HTTPStatus]:
    """Return the context and the status of the page; for an invalid range there is no chart."""
    usual = range_of(None, None, Bucket.DAY)
    neither = not given.get("from") and not given.get("to")
    data = {"from": str(usual.first), "to": str(usual.last)} if neither else given.dict()
    form = RangeForm({**data, "by": given.get("by") or Bucket.DAY})
    valid = form.is_valid()
    chosen: Range = form.cleaned_data["range"] if valid else usual
    by: Bucket = form.cleaned_data["by"] if valid else Bucket.DAY
    found = statistics.read(short_url, chosen, by=by, top=TOP)
    context = {
        "form": form,
        "statistics": found,
        "recording": bool(settings.SHORTURL_VISITS),
        "presets": list(presets(short_url, usual, (chosen, by) if valid else None)),
    }
    if not valid:
        return context, HTTPStatus.UNPROCESSABLE_ENTITY
    context |= {
        "chosen": chosen,
        "by": by,
        "chart": Chart(found.series(chosen, by)),
        "date_format": FORMATS[by],
        "longer": [(unit, visits) for unit in Bucket if (visits := found.kept_by(unit, than=by))],
        "tables": list(tables(found)),
        "csv": query(chosen, by, format="csv"),
    }
    return context, HTTPStatus.OK


def tables(found: Statistics) -> Iterator[ValueTable]:
    """Yield the tables of visits by people that have known values, and last the table of bots."""
    for dimension, title in TITLES.items():
        counts = {each.values[dimension] or "": each.people for each in found.of(dimension)}
        if any(value for value, people in counts.items() if people):
            unsaid = UNSAID.get(dimension, "unknown")
            yield ValueTable(title, lines(counts, found.total.people, unsaid))
    if found.total.bots:
        browser = Dimension.BROWSER
        counts = {each.values[browser] or "": each.bots for each in found.of(browser)}
        yield ValueTable("Bots", lines(counts, found.total.bots, "unknown"))


def lines(counts: dict[str, int], total: int, unsaid: str) -> list[ValueLine]:
    first = sorted(filter(counts.get, counts), key=lambda value: (-counts[value], value))[:TOP]
    named = {value or unsaid: counts[value] for value in first}
    if others := total - sum(named.values()):
        named["all others"] = others
    return [
        ValueLine(value, visits, round(100 * visits / total, 1)) for value, visits in named.items()
    ]


def presets(
    short_url: ShortUrl, usual: Range, current: tuple[Range, Bucket] | None
) -> Iterator[Preset]:
    """Yield links to common ranges; `current` is the range that is shown."""
    today = usual.last
    year = today.replace(year=today.year - 1, day=1)
    created = min(short_url.created_at.date(), today)
    for name, first, by in [
        ("2 days", today - timedelta(days=1), Bucket.HOUR),
        ("30 days", usual.first, Bucket.DAY),
        ("90 days", today - timedelta(days=89), Bucket.DAY),
        ("A year", (year + timedelta(days=31)).replace(day=1), Bucket.MONTH),
        ("All", created.replace(day=1), Bucket.MONTH),
    ]:
        chosen = Range(first, today)
        if chosen.number(by) <= BUCKETS_MAX:
            yield Preset(name, query(chosen, by), chosen=(chosen, by) == current)


def query(chosen: Range, by: Bucket, **more: str) -> str:
    return urlencode({"from": chosen.first, "to": chosen.last, "by": by, **more})
