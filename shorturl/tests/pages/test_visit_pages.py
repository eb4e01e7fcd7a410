"""Visits on the page of a short URL and in the API."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import operations
from shorturl.models import ShortUrl, VisitCount
from shorturl.tests.callers import bearer, fields, text, user
from shorturl.visits.chart import Chart, Count, line_step
from shorturl.visits.ranges import BUCKETS_MAX, Bucket, Range

pytestmark = pytest.mark.django_db

HOUR, DAY, MONTH = VisitCount.Unit
Record = Callable[..., None]


@pytest.fixture
def short_url() -> ShortUrl:
    return operations.create("https://example.com/page", key="spring")


@pytest.fixture
def record(short_url: ShortUrl) -> Record:
    """Record visits and as many hits."""

    def record(starts_at: str, unit: str = HOUR, hits: int = 1, **kind: Any) -> None:
        ShortUrl.objects.filter(pk=short_url.pk).update(hits=F("hits") + hits)
        at = datetime.fromisoformat(starts_at).replace(tzinfo=UTC)
        kind = {"browser": "Firefox", "is_bot": False, "unit": unit, "starts_at": at, **kind}
        VisitCount.objects.create(short_url=short_url, hits=hits, **kind)

    return record


@pytest.fixture
def three_days(record: Record) -> None:
    """Visits of three days, the oldest of which is kept by day, and of the month before."""
    record("2026-02-01", MONTH, hits=40)
    record("2026-03-01", DAY, hits=8, referrer="news.example")
    record("2026-03-02T10:00", referrer="news.example")
    record("2026-03-02T23:00", referrer="other.example")
    record("2026-03-03T00:00", hits=2)
    record("2026-03-03T00:00", hits=3, browser="Googlebot", is_bot=True)


def visits(client: Client, **query: Any) -> Any:
    response = client.get("/api/links/spring/visits", query)
    assert response.status_code == 200, response.content
    return response.json()


def rows(found: Any) -> list[tuple[Any, ...]]:
    items = found["items"]
    return [(*map(item.get, ("unit", "starts_at", "value", "people", "bots")),) for item in items]


def test_counts_by_hour_day_and_month(client: Client, three_days: None) -> None:
    query = {"from": "2026-02-01", "to": "2026-03-03"}
    assert visits(client, to=query["to"])["from"] == "2026-02-02"  # 30 days by default
    assert rows(visits(client, **query, by="month")) == [
        ("month", "2026-02-01T00:00:00Z", None, 40, 0),
        ("month", "2026-03-01T00:00:00Z", None, 12, 3),
    ]
    # Visits that are kept by month have no day and are an item of their month.
    assert rows(visits(client, **query)) == [
        ("month", "2026-02-01T00:00:00Z", None, 40, 0),
        ("day", "2026-03-01T00:00:00Z", None, 8, 0),
        ("day", "2026-03-02T00:00:00Z", None, 2, 0),
        ("day", "2026-03-03T00:00:00Z", None, 2, 3),
    ]
    assert rows(visits(client, by="hour", to="2026-03-02", **{"from": "2026-03-01"})) == [
        ("day", "2026-03-01T00:00:00Z", None, 8, 0),
        ("hour", "2026-03-02T10:00:00Z", None, 1, 0),
        ("hour", "2026-03-02T23:00:00Z", None, 1, 0),
    ]


def test_counts_values_and_both(client: Client, three_days: None) -> None:
    query = {"from": "2026-03-01", "to": "2026-03-03"}
    found = visits(client, **query, of="referrer")
    assert rows(found) == [
        (None, None, "news.example", 9, 0),
        (None, None, "", 2, 3),
        (None, None, "other.example", 1, 0),
    ]
    assert (found["people"], found["bots"]) == (12, 3)
    assert rows(visits(client, **query, of="bot")) == [(None, None, "Googlebot", 0, 3)]
    assert rows(visits(client, **query, of="browser")) == [(None, None, "Firefox", 12, 0)]
    assert rows(visits(client, **query, of="referrer", by="month"))[0] == (
        ("month", "2026-03-01T00:00:00Z", "news.example", 9, 0)
    )


def test_as_csv_with_the_total(client: Client, three_days: None) -> None:
    query = {"from": "2026-03-01", "to": "2026-03-03", "of": "referrer"}
    path, accepts = "/api/links/spring/visits", {"Accept": "text/csv"}
    expected = (
        "unit,starts_at,referrer,people,bots\n,,news.example,9,0\n,,,2,3\n,,other.example,1,0\n"
        "total,,,12,3\n"
    )
    response = client.get(path, query, headers=accepts)
    assert (response["Content-Type"], response["Vary"]) == ("text/csv; charset=utf-8", "Accept")
    assert response.content.decode() == expected
    assert client.get(path, {**query, "format": "csv"}).content.decode() == expected
    assert client.get(path, {**query, "format": "json"}, headers=accepts).json()["people"] == 12


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        ("from=2026-03-03&to=2026-03-02", "from", "begin with the earlier day"),
        ("from=1026-01-01&to=2026-01-01", "by", "there are 365,244 days, and at most 1,000"),
        ("from=1026-01-01&to=2026-01-01&by=month", "by", "choose fewer days"),
        ("from=2026-01-01&to=2026-03-01&by=hour", "by", "choose fewer days, or a longer unit"),
        ("from=2026-02-30", "from", "'2026-02-30' is not a date: write it as 2026-01-31."),
        ("to=yesterday", "to", "'yesterday' is not a date"),
        ("to=%00", "to", "is not a date"),
        ("from=", "from", "is not a date"),
        ("by=week", "by", "'hour', 'day' or 'month'"),
        ("of=shoe", "of", "'referrer', 'browser'"),
        ("format=xml", "format", "'json' or 'csv'"),
    ],
)
def test_an_invalid_range(
    client: Client, short_url: ShortUrl, query: str, field: str, says: str
) -> None:
    response = client.get(f"/api/links/spring/visits?{query}", headers=bearer())
    assert (response.status_code, list(fields(response))) == (422, [field])
    assert says in response.json()["detail"]
    if field not in ("of", "format") and query != "from=":
        page = client.get(f"/spring/stats?{query}")
        assert page.status_code == 422
        assertContains(page, 'class="errorlist"', status_code=422)


def test_the_first_and_the_last_day_of_the_calendar(client: Client, three_days: None) -> None:
    for day, by in product(("0001-01-01", "9999-12-31"), Bucket):
        assert visits(client, **{"from": day, "to": day, "by": by})["items"] == []
        assert visits(client, to=day)["hits"] == 55
        assert client.get("/spring/stats", {"from": day, "to": day, "by": by}).status_code == 200


def test_visits_of_a_foreign_link_are_404(
    client: Client, short_url: ShortUrl, settings: Settings
) -> None:
    settings.SHORTURL_PUBLIC_STATS = False
    path = "/api/links/spring/visits"
    assert client.get(path).status_code == 401
    for key in "spring", "nothing", "x" * 65:
        response = client.get(f"/api/links/{key}/visits", headers=bearer(f"of {key}", user=user()))
        assert response.status_code == 404
    refused = client.get(path, headers=bearer("no reader", can_read=False))
    assert refused.status_code == 403
    settings.SHORTURL_PUBLIC_STATS = True
    assert client.get(path).status_code == 200


def test_hits_and_visits_are_of_one_snapshot(client: Client, record: Record) -> None:
    """A hit that arrives after the link was read is in both, or in neither."""
    today = timezone.now().date().isoformat()

    def arrives(execute: Any, statement: Any, *others: Any) -> Any:
        if "GROUPING SETS" in str(statement):
            record(today, referrer="news.example")
        return execute(statement, *others)

    record(today)
    with connection.execute_wrapper(arrives):
        page = client.get("/spring/stats")
    found = page.context["statistics"]
    assert (found.hits, found.recorded, found.total.people) == (2, 2, 2)


def test_the_hits_that_are_not_recorded(client: Client, record: Record) -> None:
    record(timezone.now().date().isoformat(), hits=1_000)
    assert "not recorded" not in text(client.get("/spring/stats"))
    ShortUrl.objects.update(hits=1_234)
    said = "Of 1,234 hits, 234 are not recorded"
    assert said in text(client.get("/spring/stats"))
    assert visits(client)["not_recorded"] == 234
    # `recorded` includes visits before and after the range.
    day = timezone.now().date() - timedelta(days=3)
    found = visits(client, **{"from": day, "to": day})
    assert (found["people"], found["recorded"], found["not_recorded"]) == (0, 1_000, 234)
    record("2020-01-01", DAY)
    created_on = ShortUrl.objects.get().created_at.date()
    assert visits(client, **{"from": created_on})["recorded"] == 1_001
    # For a part of the time since the link was created it is not counted.
    ShortUrl.objects.update(created_at=timezone.now() - timedelta(days=100))
    assert visits(client)["recorded"] is None
    assert "not recorded" not in text(client.get("/spring/stats"))
    assert "234 are not recorded" in text(client.get("/spring/stats?from=2020-01-01&by=month"))


def test_the_page_without_visits(client: Client, short_url: ShortUrl, settings: Settings) -> None:
    assertContains(client.get("/spring/stats"), "No visit is recorded yet.")
    settings.SHORTURL_VISITS = False
    assertContains(client.get("/spring/stats"), "Visits are not recorded at present")


def test_the_page_has_the_chart_as_a_table_and_the_values(client: Client, three_days: None) -> None:
    query = {"from": "2026-02-01", "to": "2026-03-03", "by": "day"}
    page = client.get("/spring/stats", query)
    assertContains(page, '<th scope="row">2 Mar 2026</th><td>2</td><td>0</td>')
    assertContains(page, "by=day&amp;format=csv")
    said = text(page)
    assert "40 of these visits are stored by month only" in said
    assert "Referrers none: typed in, or not sent 42 80.8% news.example 9 17.3%" in said
    assert "Bots Googlebot 3 100.0%" in said
    assert "all others" not in said
    assertNotContains(page, "Countries")  # of which none is known
    page = client.get("/spring/stats", {"from": "2026-03-01", "to": "2026-03-01", "by": "hour"})
    assert "8 of these visits are stored by day only" in text(page)
    assertNotContains(page, 'class="chart"')
    page = client.get("/spring/stats", {"from": "2026-03-04", "to": "2026-03-05"})
    assertContains(page, "There are no visits in this range.")


def test_the_page_adds_up_the_values_beyond_the_top(client: Client, record: Record) -> None:
    for number in range(12):
        record("2026-03-01", referrer=f"{number}.example", hits=20 - number)
    said = text(client.get("/spring/stats?from=2026-03-01&to=2026-03-01"))
    assert "9.example 11 6.3% all others 19 10.9%" in said


def test_the_page_links_common_ranges(client: Client, short_url: ShortUrl) -> None:
    presets = client.get("/spring/stats").context["presets"]
    for preset, days in zip(presets, (2, 30, 90), strict=False):
        query = parse_qs(preset.query)
        first, last = (date.fromisoformat(query[name][0]) for name in ("from", "to"))
        assert (last - first).days + 1 == days, preset.name
    assert [preset.name for preset in presets if preset.chosen] == ["30 days"]


def chart(unit: Bucket, first: str, last: str) -> Chart:
    days = Range(*(datetime.fromisoformat(each).date() for each in (first, last)))
    return Chart([Count(at, 1, 1) for at in days.buckets(unit)])


@pytest.mark.parametrize(
    ("unit", "first", "last", "labels"),
    [
        (Bucket.HOUR, "2026-03-01", "2026-03-01", "1 Mar|03:00|06:00"),
        (Bucket.HOUR, "2026-03-01", "2026-03-08", "1 Mar|2 Mar|3 Mar"),
        (Bucket.DAY, "2026-03-01", "2026-03-31", "2 Mar|9 Mar|16 Mar"),
        (Bucket.DAY, "2025-12-01", "2026-11-22", "Dec|2026|Feb"),
        (Bucket.MONTH, "2025-12-01", "2026-11-22", "Dec|2026|Feb"),
        (Bucket.MONTH, "1990-01-01", "2026-11-22", "1990|1995|2000"),
        (Bucket.DAY, "2026-03-04", "2026-03-04", "4 Mar"),
    ],
)
def test_the_chart_has_few_labels_below(unit: Bucket, first: str, last: str, labels: str) -> None:
    drawn = chart(unit, first, last)
    ticks = drawn.ticks
    assert 1 <= len(ticks) <= 13
    assert "|".join(tick.label for tick in ticks[:3]) == labels
    places = [tick.place for tick in ticks if not tick.minor]
    assert all(later - sooner > 12 for sooner, later in pairwise(places))
    assert drawn.top == 2


def test_the_chart_has_round_numbers_at_its_side() -> None:
    now = timezone.now()
    for most in (0, 1, 2, 7, 99, 12_345, 10**15):
        lines = Chart([Count(now, most, 0), Count(now + timedelta(hours=1), 0, 0)]).lines
        assert 2 <= len(lines) <= 6
        assert (lines[0].place, lines[-1].place) == (100, 0)
    assert list(map(line_step, (0, 5, 6, 51, 501))) == [1, 1, 2, 20, 200]


def test_a_range_has_as_many_buckets_as_it_says() -> None:
    days = Range(datetime(2025, 12, 15).date(), datetime(2026, 1, 2).date())  # noqa: DTZ001
    for unit in Bucket:
        assert len(days.buckets(unit)) == days.number(unit) <= BUCKETS_MAX
    months = [f"{each:%Y-%m-%d}" for each in days.buckets(Bucket.MONTH)]
    assert months == ["2025-12-01", "2026-01-01"]
