"""Visits on the page of a short URL and in the API."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise, product
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import operations
from shorturl.models import RecentVisits, ShortUrl, Visit
from shorturl.models.visits import daily_since
from shorturl.tests.callers import bearer, fields, text, user
from shorturl.visits.chart import Bar, Chart, line_step
from shorturl.visits.ranges import MAX_BUCKETS, Bucket, Range
from shorturl.visits.roll_up import roll_up_visits
from shorturl.visits.statistics import STATEMENT

pytestmark = pytest.mark.django_db

Record = Callable[..., None]
TODAY = timezone.now().date()
YESTERDAY, LAST_MONTH = TODAY - timedelta(days=1), TODAY - timedelta(days=20)
LONG_AGO = (daily_since(TODAY) - timedelta(days=1)).replace(day=1)  # is kept as a month
VISIT = Visit("", "Firefox", "Linux", "Computer", is_bot=False)


@pytest.fixture
def short_url() -> ShortUrl:
    return operations.create("https://example.com/page", key="spring")


@pytest.fixture
def record(short_url: ShortUrl) -> Record:
    """Record visits and as many hits."""

    def record_visits(day: date, hour: int = 0, hits: int = 1, **values: Any) -> None:
        ShortUrl.objects.filter(pk=short_url.pk).update(hits=F("hits") + hits)
        starts_at = datetime.combine(day, time(hour), UTC)
        kinds = [VISIT._replace(**values)] * hits
        RecentVisits.objects.create(short_url=short_url, starts_at=starts_at, kinds=kinds)

    return record_visits


@pytest.fixture(params=[True, False], ids=["rolled up", "recent"])
def some_days(record: Record, request: pytest.FixtureRequest) -> None:
    """Visits that are kept by the hour, by the day and by the month."""
    record(LONG_AGO, hits=40)
    record(LAST_MONTH, hits=8, referrer="news.example")
    record(YESTERDAY, 10, referrer="news.example")
    record(YESTERDAY, 23, referrer="other.example")
    record(TODAY, hits=2)
    record(TODAY, hits=3, browser="Googlebot", is_bot=True)
    if request.param:
        roll_up_visits()


def visits(client: Client, **query: Any) -> Any:
    response = client.get("/api/links/spring/visits", query)
    assert response.status_code == 200, response.content
    return response.json()


def rows(answer: Any) -> list[tuple[Any, ...]]:
    items = answer["items"]
    return [(*map(item.get, ("unit", "starts_at", "value", "people", "bots")),) for item in items]


def at(day: date, hour: int = 0) -> str:
    return f"{day}T{hour:02}:00:00Z"


@pytest.mark.usefixtures("some_days")
def test_counts_by_hour_day_and_month(client: Client) -> None:
    assert visits(client)["from"] == str(TODAY - timedelta(days=29))  # by default
    # Visits that are kept by month have no day and are an item of their month.
    days = [(LAST_MONTH, 8, 0), (YESTERDAY, 2, 0), (TODAY, 2, 3)]
    expected = [("day", at(day), None, *numbers) for day, *numbers in days]
    long_ago = ("month", at(LONG_AGO), None, 40, 0)
    assert rows(visits(client, **{"from": LONG_AGO})) == [long_ago, *expected]
    first, *months = rows(visits(client, by="month", **{"from": LONG_AGO}))
    assert first == long_ago
    assert {month[1] for month in months} == {at(day.replace(day=1)) for day, *_ in days}
    assert (sum(month[3] for month in months), sum(month[4] for month in months)) == (12, 3)
    assert rows(visits(client, by="hour", **{"from": LAST_MONTH})) == [
        expected[0],
        ("hour", at(YESTERDAY, 10), None, 1, 0),
        ("hour", at(YESTERDAY, 23), None, 1, 0),
        ("hour", at(TODAY), None, 2, 3),
    ]


@pytest.mark.usefixtures("some_days")
def test_counts_values_and_both(client: Client) -> None:
    query = {"from": LAST_MONTH, "to": TODAY}
    answer = visits(client, **query, of="referrer")
    assert rows(answer) == [
        (None, None, "news.example", 9, 0),
        (None, None, "", 2, 3),
        (None, None, "other.example", 1, 0),
    ]
    assert (answer["people"], answer["bots"]) == (12, 3)
    assert rows(visits(client, **query, of="bot")) == [(None, None, "Googlebot", 0, 3)]
    assert rows(visits(client, **query, of="browser")) == [(None, None, "Firefox", 12, 0)]
    assert rows(visits(client, **query, of="referrer", by="day")) == [
        ("day", at(LAST_MONTH), "news.example", 8, 0),
        ("day", at(YESTERDAY), "news.example", 1, 0),
        ("day", at(YESTERDAY), "other.example", 1, 0),
        ("day", at(TODAY), "", 2, 3),
    ]


@pytest.mark.usefixtures("some_days")
def test_as_csv_with_the_total(client: Client) -> None:
    query = {"from": str(LAST_MONTH), "to": str(TODAY), "of": "referrer"}
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
        ("from=2026-01-01&to=2026-03-01&by=hour", "by", "choose fewer days, or a longer unit"),
        ("from=2026-02-30", "from", "'2026-02-30' is not a date: write it as 2026-01-31."),
        ("to=yesterday", "to", "'yesterday' is not a date"),
        ("from=", "from", "is not a date"),
        ("by=week", "by", "'hour', 'day' or 'month'"),
        ("of=shoe", "of", "'referrer', 'browser'"),
        ("of=referrer&by=hour", "of", "Visits by the hour have no values: use by=day."),
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


@pytest.mark.usefixtures("some_days")
def test_the_first_and_the_last_day_of_the_calendar(client: Client) -> None:
    for day, by in product(("0001-01-01", "9999-12-31"), Bucket):
        assert visits(client, **{"from": day, "to": day, "by": by})["items"] == []
        assert visits(client, to=day)["hits"] == 55
        assert client.get("/spring/stats", {"from": day, "to": day, "by": by}).status_code == 200


def test_visits_of_a_foreign_link_are_404(
    client: Client, short_url: ShortUrl, settings: Settings
) -> None:
    settings.SHORTURL_PUBLIC_STATS = False
    path = "/api/links/spring/visits"
    for status, headers in [
        (401, {}),
        (404, bearer("stranger", user=user())),
        (403, bearer("no reader", can_read=False)),
    ]:
        assert client.get(path, headers=headers).status_code == status
    settings.SHORTURL_PUBLIC_STATS = True
    assert client.get(path).status_code == 200


def test_hits_and_visits_are_of_one_snapshot(client: Client, record: Record) -> None:
    """A hit that arrives after the link was read is in both, or in neither."""

    def arrives(execute: Any, statement: Any, *others: Any) -> Any:
        if statement is STATEMENT:
            record(TODAY, referrer="news.example")
        return execute(statement, *others)

    record(TODAY)
    with connection.execute_wrapper(arrives):
        page = client.get("/spring/stats")
    statistics = page.context["statistics"]
    assert (statistics.hits, statistics.recorded, statistics.people) == (2, 2, 2)


def test_the_hits_that_are_not_recorded(client: Client, record: Record) -> None:
    record(TODAY, hits=1_000)
    assert "not recorded" not in text(client.get("/spring/stats"))
    ShortUrl.objects.update(hits=1_234)
    assert "Of 1,234 hits, 234 are not recorded" in text(client.get("/spring/stats"))
    assert visits(client)["not_recorded"] == 234
    # `recorded` includes visits before and after the range.
    day = TODAY - timedelta(days=3)
    answer = visits(client, **{"from": day, "to": day})
    assert (answer["people"], answer["recorded"], answer["not_recorded"]) == (0, 1_000, 234)
    record(LONG_AGO)
    created_on = ShortUrl.objects.get().created_at.date()
    assert visits(client, **{"from": created_on})["recorded"] == 1_001
    # For a part of the time since the link was created it is not shown.
    ShortUrl.objects.update(created_at=timezone.now() - timedelta(days=100))
    assert visits(client)["recorded"] is None
    assert "not recorded" not in text(client.get("/spring/stats"))
    assert "234 are not recorded" in text(client.get("/spring/stats?from=2020-01-01&by=month"))


def test_the_page_without_visits(client: Client, short_url: ShortUrl, settings: Settings) -> None:
    assertContains(client.get("/spring/stats"), "No visit is recorded yet.")
    settings.SHORTURL_VISITS = False
    assertContains(client.get("/spring/stats"), "Visits are not recorded at present")


@pytest.mark.usefixtures("some_days")
def test_the_page_has_the_chart_as_a_table_and_the_values(client: Client) -> None:
    page = client.get("/spring/stats", {"from": str(LONG_AGO), "by": "day"})
    day = f"{TODAY.day} {TODAY:%b %Y}"
    assertContains(page, f'<th scope="row">{day}</th><td>2</td><td>3</td>')
    assertContains(page, "by=day&amp;format=csv")
    shown = text(page)
    assert "40 of these visits are stored by month only" in shown
    assert "Referrers none: typed in, or not sent 42 80.8% news.example 9 17.3%" in shown
    assert "Bots Googlebot 3 100.0%" in shown
    assert "all others" not in shown
    assertNotContains(page, "Countries")  # of which none is known
    page = client.get(
        "/spring/stats", {"from": str(LAST_MONTH), "to": str(LAST_MONTH), "by": "hour"}
    )
    assert "8 of these visits are stored by day only" in text(page)
    assertNotContains(page, 'class="chart"')
    page = client.get("/spring/stats", {"from": "2020-03-04", "to": "2020-03-05"})
    assertContains(page, "There are no visits in this range.")
    assertContains(page, "<h3>4 Mar 2020 – 5 Mar 2020</h3>")
    assertContains(client.get("/spring/stats"), "<h3>Last 30 days</h3>")


def test_the_page_adds_up_the_values_beyond_the_top(client: Client, record: Record) -> None:
    for number in range(12):
        values = {"referrer": f"{number}.example", "browser": f"Browser {number}"}
        record(TODAY, hits=20 - number, **values)
    record(TODAY, country="DE")
    record(TODAY, browser="Googlebot", is_bot=True)  # not among the first browsers
    page = client.get("/spring/stats")
    assert "9.example 11 6.3% all others 20 11.4%" in text(page)
    assert "Bots Googlebot 1 100.0%" in text(page)
    assertContains(page, "<bdi data-country>DE</bdi>")  # the browser adds the name


def test_the_page_links_common_ranges(client: Client, short_url: ShortUrl) -> None:
    context = client.get("/spring/stats").context
    presets, shown = context["presets"], context["shown"]
    for preset, days in zip(presets, (2, 30, 90), strict=False):
        assert preset.days.number(Bucket.DAY) == days
        assert f"from={preset.days.first}&to={TODAY}" in preset.query
    assert [preset.name for preset in presets if preset.query == shown.query] == ["30 days"]


def chart(unit: Bucket, first: str, last: str) -> Chart:
    days = Range(date.fromisoformat(first), date.fromisoformat(last))
    return Chart([Bar(at, 1, 1) for at in days.buckets(unit)])


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
    positions = [tick.position for tick in ticks if not tick.minor]
    assert all(later - sooner > 12 for sooner, later in pairwise(positions))
    assert drawn.top == 2


def test_the_chart_has_round_numbers_at_its_side() -> None:
    now = timezone.now()
    for most in (0, 1, 2, 7, 99, 12_345, 10**15):
        lines = Chart([Bar(now, most, 0), Bar(now + timedelta(hours=1))]).lines
        assert 2 <= len(lines) <= 6
        assert (lines[0].position, lines[-1].position) == (100, 0)
    assert list(map(line_step, (0, 5, 6, 51, 501))) == [1, 1, 2, 20, 200]


def test_a_range_has_as_many_buckets_as_it_says() -> None:
    days = Range(date(2025, 12, 15), date(2026, 1, 2))
    for unit in Bucket:
        assert len(days.buckets(unit)) == days.number(unit) <= MAX_BUCKETS
    months = [f"{month:%Y-%m-%d}" for month in days.buckets(Bucket.MONTH)]
    assert months == ["2025-12-01", "2026-01-01"]
