"""The visits to one short URL, or to those that match filters, as JSON or CSV."""

import csv
from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from ninja import Query, Router
from pydantic import BaseModel, BeforeValidator, Field

from shorturl.api import access
from shorturl.api.error_responses import input_error
from shorturl.api.links import OPTIONAL, find_link, refuse_unknown_parameters
from shorturl.api.schemas import Error, Filters, convert_errors
from shorturl.limits import owners
from shorturl.models import Dimension, ShortUrl, ShortUrlQuerySet
from shorturl.visits import statistics
from shorturl.visits.ranges import DEFAULT_DAYS, MAX_BUCKETS, Bucket, Range, range_of, read_date
from shorturl.visits.statistics import MAX_ITEMS, Statistics, VisitCount

router = Router(tags=["links"])

JSON, CSV = "application/json", "text/csv"
# What visits can be grouped by. The dimension browser also has the names of bots.
Of = Literal["referrer", "browser", "system", "device", "country", "bot"]
Day = Annotated[date, BeforeValidator(convert_errors()(read_date))]


ALSO_CSV = {"responses": {200: {"content": {CSV: {"schema": {"type": "string"}}}}}}


class VisitsQuery(BaseModel):
    first: Day | None = Field(
        None,
        alias="from",
        description="The first day, in UTC, such as 2026-01-01; by default "
        f"{DEFAULT_DAYS} days until the last.",
    )
    last: Day | None = Field(
        None,
        alias="to",
        description="The last day, which is included; by default today.",
    )
    by: Bucket | None = Field(
        None,
        description=f"For each hour, day or month, at most {MAX_BUCKETS:,} of them. Without `by` "
        "and `of`, for each day.",
    )
    of: Of | None = Field(
        None,
        description="For each value of this, which visits by the hour do not have; `bot` is the "
        "name of a bot.",
    )
    format: Literal["json", "csv"] | None = Field(
        None, description="Instead of an Accept header, for a link in a page."
    )


class Item(BaseModel):
    """The visits of a period, of a value, or of both."""

    starts_at: datetime | None = Field(description="When the period begins; null without a period.")
    unit: Bucket | None = Field(
        description="The length of the period: longer than `by` if the visits are stored only by "
        "day or month."
    )
    value: str | None = Field(
        description="The value of `of`; empty if the visitor sent none, or it is unknown."
    )
    people: int = Field(description="Visits by people; a person who comes twice counts twice.")
    bots: int = Field(description="Visits by bots.")


class Visits(BaseModel):
    """The visits of short URLs within a range, most recent last."""

    links: int = Field(description="How many short URLs these are.")
    hits: int = Field(description="How often they were followed, ever.")
    recorded: int | None = Field(
        description="How many of the hits are recorded as visits; null unless the range begins no "
        "later than the oldest of the short URLs."
    )
    not_recorded: int | None = Field(
        description="How many of the hits are not; `hits` is the sum of both."
    )
    first: date = Field(serialization_alias="from")
    last: date = Field(serialization_alias="to")
    people: int = Field(description="In this range.")
    bots: int = Field(description="In this range.")
    items: list[Item] = Field(
        description="In order of time and number, without periods and values that have no visits."
    )


class LinkVisits(Visits):
    """The visits of a short URL within a range, most recent last."""

    key: str


@router.get(
    "/links/{key}/visits",
    auth=[access.Token("read"), access.anyone_where_stats_are_public, access.Login()],
    response={200: LinkVisits, frozenset({401, 403, 404, 422, 503}): Error},
    operation_id="list_visits",
    summary="Count the visits to a short URL",
    by_alias=True,
    openapi_extra={**OPTIONAL, **ALSO_CSV},
)
def list_visits(request: HttpRequest, key: str, query: Query[VisitsQuery]) -> Any:
    """Count the visits to a short URL within a range of days: by period, by value, or by both.

    All numbers are of one moment. Visits that are stored by day or by month count in the range in
    which that day or month begins, so that consecutive ranges add up to the total. CSV
    (`Accept: text/csv`, or `format=csv`) has a line for each item, and a last line of the unit
    `total` for the range.
    """
    find_link(owners.visible_to(access.get_caller(request)), key)  # raises a 404
    return answer_visits(request, ShortUrl.objects.filter(key=key), query, key=key)


@router.get(
    "/visits",
    auth=[access.Token("read"), access.Login()],
    response={200: Visits, frozenset({401, 403, 422, 503}): Error},
    operation_id="list_visits_of_links",
    summary="Count the visits to your short URLs",
    by_alias=True,
    openapi_extra=ALSO_CSV,
)
def list_visits_of_links(
    request: HttpRequest, filters: Query[Filters], query: Query[VisitsQuery]
) -> Any:
    """Count the visits to all your short URLs that match the filters, such as those with a tag.

    The answer is that of *Count the visits to a short URL*, for all of them together. Deleted
    short URLs are not included.
    """
    refuse_unknown_parameters(request.GET, Filters, VisitsQuery)
    links = owners.own_links(access.get_caller(request))
    return answer_visits(request, links.matching(dict(filters), request.get_host()), query)


def answer_visits(
    request: HttpRequest, links: ShortUrlQuerySet, query: VisitsQuery, key: str = ""
) -> Any:
    """Return the visits of the links as the schema has them, or a response in CSV.

    They are counted for each period of the length `query.by`, for each value of the dimension
    `query.of`, or for both.
    """
    by = query.by or (None if query.of else Bucket.DAY)
    if by == Bucket.HOUR and query.of:
        raise input_error("of", "by_hour", "Visits by the hour have no values: use by=day.")
    days = read_range(query, by)
    visits = read_visits(links, days, by, query.of)
    counts = visits.periods if by else visits.values
    if len(counts) > MAX_ITEMS:
        message = f"There are more than {MAX_ITEMS:,} items: choose fewer days, or a longer unit."
        raise input_error("from", "too_many", message)
    items = make_items(counts, query.of)
    # By time, if there are periods, and then the largest number first.
    items.sort(key=lambda item: (item.starts_at or days.begins, -item.people - item.bots))
    wanted = query.format or request.get_preferred_type([JSON, CSV])
    if wanted in ("csv", CSV):
        return csv_response(visits, items, query.of, key)
    return {
        **visits._asdict(),
        "not_recorded": visits.not_recorded,
        "key": key,
        "first": days.first,
        "last": days.last,
        "items": items,
    }


def make_items(counts: Iterable[VisitCount], of: Of | None) -> list[Item]:
    """Return the counts as items, without those that have no visits.

    The dimension browser has the browsers of people and the names of bots. `browser` gets its
    visits by people alone, and `bot` its visits by bots.
    """
    items = []
    for count in counts:
        people = 0 if of == "bot" else count.people
        bots = 0 if of == "browser" else count.bots
        if people or bots:
            items.append(Item(**count._replace(people=people, bots=bots)._asdict()))
    return items


def read_range(query: VisitsQuery, by: Bucket | None) -> Range:
    """Return the range of the query; raise an ApiError with the fault that range_of() finds."""
    try:
        return range_of(query.first, query.last, by)
    except ValidationError as error:
        [(field, [fault])] = error.error_dict.items()
        raise input_error(field, fault.code or "invalid", fault.messages[0]) from error


def read_visits(
    links: ShortUrlQuerySet, days: Range, by: Bucket | None, of: Of | None
) -> Statistics:
    """Return the statistics: with `periods` if `by` is given, else with `values`."""
    dimension = Dimension("browser" if of == "bot" else of) if of else None
    if by:
        return statistics.read(links, days, by=by, of=dimension)
    dimensions = [dimension] if dimension else []
    top = MAX_ITEMS + 1  # one more shows that there are too many
    return statistics.read(links, days, values_of=dimensions, top=top)


def csv_response(visits: Statistics, items: list[Item], of: Of | None, key: str) -> HttpResponse:
    response = HttpResponse(content_type=f"{CSV}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{key or "links"}-visits.csv"'
    patch_vary_headers(response, ["Accept"])
    writer = csv.writer(response, lineterminator="\n")
    writer.writerow(["unit", "starts_at", of or "value", "people", "bots"])
    for item in items:
        starts_at = item.starts_at and item.starts_at.isoformat()
        writer.writerow([item.unit, starts_at, item.value, item.people, item.bots])
    writer.writerow(["total", "", "", visits.people, visits.bots])
    return response
