"""What the page of a short URL shows of its visits: a chart of a range, and who they were."""

from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.http import QueryDict

from shorturl import visit_statistics
from shorturl.chart import Chart
from shorturl.models import ShortUrl
from shorturl.range_form import RangeForm
from shorturl.visit_ranges import BUCKETS_MAX, Range, Unit, range_of
from shorturl.visit_statistics import Dimension, Statistics

TOP = 10  # values of each table; the others are one line
# How a template writes the time of an hour, a day or a month.
FORMATS = {Unit.HOUR: "j M Y, H:i", Unit.DAY: "j M Y", Unit.MONTH: "F Y"}
TITLES = {
    Dimension.REFERRER: "Referrers",
    Dimension.COUNTRY: "Countries",
    Dimension.BROWSER: "Browsers",
    Dimension.SYSTEM: "Systems",
    Dimension.DEVICE: "Devices",
}
UNSAID = {Dimension.REFERRER: "none: typed, or not told"}


class ValueLine(NamedTuple):
    """A value, its visits, and what part of all they are, in percent."""

    value: str
    visits: int
    percent: float


class ValueTable(NamedTuple):
    """The visits by the values of one dimension."""

    title: str
    lines: list[ValueLine]


class Preset(NamedTuple):
    """A range that is one click away."""

    name: str
    query: str
    chosen: bool


def visits_of(short_url: ShortUrl, given: QueryDict) -> tuple[dict[str, Any], HTTPStatus]:
    """Return what the page shows of the visits in the range that its address gives.

    Where that is none, the status is 422, the form says what is wrong, and there is no chart.
    """
    usual = range_of(None, None, Unit.DAY)
    neither = not given.get("from") and not given.get("to")
    data = {"from": str(usual.first), "to": str(usual.last)} if neither else given.dict()
    form = RangeForm({**data, "by": given.get("by") or Unit.DAY})
    valid = form.is_valid()
    chosen: Range = form.cleaned_data["range"] if valid else usual
    by: Unit = form.cleaned_data["by"] if valid else Unit.DAY
    found = visit_statistics.read(short_url, chosen, by=by, top=TOP)
    context = {
        "form": form,
        "statistics": found,
        "recording": bool(settings.SHORTURL_VISITS),
        "presets": list(presets(short_url, usual, (chosen, by) if valid else None)),
    }
    if not valid:
        return context, HTTPStatus.UNPROCESSABLE_ENTITY
    return context | shown(found, chosen, by), HTTPStatus.OK


def shown(found: Statistics, chosen: Range, by: Unit) -> dict[str, Any]:
    """Return what there is to show of a range."""
    return {
        "chosen": chosen,
        "by": by,
        "chart": Chart(found.series(chosen, by)),
        "date_format": FORMATS[by],
        "longer": [(unit, visits) for unit in Unit if (visits := found.kept_by(unit, than=by))],
        "tables": list(tables(found)),
        "csv": query(chosen, by, format="csv"),
    }


def tables(found: Statistics) -> Iterator[ValueTable]:
    """Yield the tables that have something to say: of people, and at last of bots."""
    for dimension, title in TITLES.items():
        counts = {each.values[dimension] or "": each.people for each in found.of(dimension)}
        if any(value for value, people in counts.items() if people):
            yield ValueTable(
                title, lines(counts, found.total.people, UNSAID.get(dimension, "unknown"))
            )
    if found.total.bots:
        counts = {
            each.values[Dimension.BROWSER] or "": each.bots for each in found.of(Dimension.BROWSER)
        }
        yield ValueTable("Bots", lines(counts, found.total.bots, "unknown"))


def lines(counts: dict[str, int], total: int, unsaid: str) -> list[ValueLine]:
    """Return the TOP values, most first, and the others in one line."""
    first = sorted(filter(counts.get, counts), key=lambda value: (-counts[value], value))[:TOP]
    named = {value or unsaid: counts[value] for value in first}
    if others := total - sum(named.values()):
        named["all others"] = others
    return [
        ValueLine(value, visits, round(100 * visits / total, 1)) for value, visits in named.items()
    ]


def presets(
    short_url: ShortUrl, usual: Range, current: tuple[Range, Unit] | None
) -> Iterator[Preset]:
    """Yield the ranges that most people ask for; `current` is the one that is shown."""
    today = usual.last
    year = today.replace(year=today.year - 1, day=1)
    created = min(short_url.created_at.date(), today)
    for name, first, by in [
        ("2 days", today - timedelta(days=1), Unit.HOUR),
        ("30 days", usual.first, Unit.DAY),
        ("90 days", today - timedelta(days=89), Unit.DAY),
        ("A year", (year + timedelta(days=31)).replace(day=1), Unit.MONTH),
        ("All", created.replace(day=1), Unit.MONTH),
    ]:
        chosen = Range(first, today)
        if chosen.number(by) <= BUCKETS_MAX:
            yield Preset(name, query(chosen, by), chosen=(chosen, by) == current)


def query(chosen: Range, by: Unit, **more: str) -> str:
    """Return the query of an address that asks for a range."""
    return urlencode({"from": chosen.first, "to": chosen.last, "by": by, **more})
