"""The visits on a page of links: a chart of a range, and tables of its dimensions."""

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.http import QueryDict
from django.utils import timezone

from shorturl.exceptions import RangeTooLong
from shorturl.models import Dimension, ShortUrlQuerySet
from shorturl.pages.forms import RangeForm
from shorturl.visits import statistics
from shorturl.visits.chart import Bar, Chart
from shorturl.visits.ranges import MAX_BUCKETS, Bucket, Range, range_of
from shorturl.visits.statistics import Statistics

RANGE = ("from", "to", "by")  # parameters
MAX_VALUES = 10  # of each table; all others share one line
# The template's date formats.
FORMATS = {Bucket.HOUR: "j M Y, H:i", Bucket.DAY: "j M Y", Bucket.MONTH: "F Y"}
TITLES = {
    Dimension.REFERRER: "Referrers",
    Dimension.COUNTRY: "Countries",
    Dimension.BROWSER: "Browsers",
    Dimension.SYSTEM: "Systems",
    Dimension.DEVICE: "Devices",
}


class Preset(NamedTuple):
    """A range that the page links to, or shows."""

    name: str
    days: Range
    by: Bucket


class ValueLine(NamedTuple):
    value: str
    visits: int
    percent: float  # of all visits


def visits_context(links: ShortUrlQuerySet, parameters: QueryDict) -> dict[str, Any]:
    """Return the context of visits.html; for an invalid range its form has errors."""
    default = range_of(None, None, Bucket.DAY)
    data = {name: value for name, value in parameters.items() if value}
    if "from" not in data and "to" not in data:
        data.update({"from": str(default.first), "to": str(default.last)})
    form = RangeForm({"by": Bucket.DAY, **data})
    days: Range = form.cleaned_data["range"] if form.is_valid() else default
    by: Bucket = form.cleaned_data["by"] if form.is_valid() else Bucket.DAY
    try:
        visits = statistics.read(links, days, by=by, values_of=list(Dimension), top=MAX_VALUES)
    except RangeTooLong as error:
        form.add_error("first", error.message)
        visits = statistics.read(links, Range(days.last, days.last))  # the links and their hits
    people_and_bots = {}  # by the start of the hour, day or month
    visits_by_longer_unit: Counter[Bucket | None] = Counter()
    for period in visits.periods:
        if period.unit == by:
            people_and_bots[period.starts_at] = (period.people, period.bots)
        else:
            visits_by_longer_unit[period.unit] += period.people + period.bots
    bars = [Bar(start, *people_and_bots.get(start, (0, 0))) for start in days.buckets(by)]
    return {
        "form": form,
        "statistics": visits,
        "recording": bool(settings.SHORTURL_VISITS),
        "other_parameters": {name: data[name] for name in data if name not in RANGE},
        "presets": list(presets(visits, default.last)),
        "shown": Preset(range_name(days), days, by),
        "chart": Chart(bars) if people_and_bots else None,
        "date_format": FORMATS[by],
        "visits_by_longer_unit": visits_by_longer_unit.items(),
        "tables": value_tables(visits),
    }


def value_tables(visits: Statistics) -> dict[str, list[ValueLine]]:
    """Return tables by title: of people for each dimension with a known value, and of bots."""
    tables = {}
    for dimension, title in TITLES.items():
        counts = [count for count in visits.values if count.dimension == dimension]
        people = {count.value: count.people for count in counts if count.people}
        if people.keys() - {"", None}:
            is_referrer = dimension == Dimension.REFERRER
            unknown = "none: typed in, or not sent" if is_referrer else "unknown"
            tables[title] = value_lines(people, visits.people, unknown)
    if visits.bots:
        counts = [count for count in visits.values if count.dimension == Dimension.BROWSER]
        bots = {count.value: count.bots for count in counts if count.bots}
        tables["Bots"] = value_lines(bots, visits.bots, "unknown")
    return tables


def value_lines(counts: dict[str | None, int], total: int, unknown: str) -> list[ValueLine]:
    """Return a line for each of the most frequent values; `unknown` names the empty value."""
    values = sorted(counts, key=lambda value: (-counts[value], value or ""))[:MAX_VALUES]
    named = {value or unknown: counts[value] for value in values}
    if all_others := total - sum(named.values()):
        named["all others"] = all_others
    return [ValueLine(name, count, round(100 * count / total, 1)) for name, count in named.items()]


def presets(visits: Statistics, today: date) -> Iterator[Preset]:
    """Yield the common ranges that end today."""
    next_month = today.replace(day=1) + timedelta(days=31)  # "A year" begins with it, a year ago
    created = min(visits.oldest.date(), today) if visits.oldest else today
    for name, first, by in [
        ("2 days", today - timedelta(days=1), Bucket.HOUR),
        ("30 days", today - timedelta(days=29), Bucket.DAY),
        ("90 days", today - timedelta(days=89), Bucket.DAY),
        ("A year", next_month.replace(year=next_month.year - 1, day=1), Bucket.MONTH),
        ("All", created.replace(day=1), Bucket.MONTH),
    ]:
        if Range(first, today).count_buckets(by) <= MAX_BUCKETS:
            yield Preset(name, Range(first, today), by)


def range_name(days: Range) -> str:
    """Return the heading of a range: "Last 30 days", or its first and its last day."""
    number = days.count_buckets(Bucket.DAY)
    if days.last == timezone.now().date():
        return "Today" if number == 1 else f"Last {number:,} days"
    first, last = (f"{day.day} {day:%b} {day.year}" for day in (days.first, days.last))
    return first if number == 1 else f"{first} – {last}"
