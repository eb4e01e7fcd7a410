"""The page of a short URL with its visits, which the API has too, and its QR code."""

from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise, product
from typing import Any
from xml.etree import ElementTree

import pytest
import segno
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains

from shorturl.api import link_visits
from shorturl.models import RecentVisits, ShortUrl
from shorturl.models.visits import daily_since, hourly_since
from shorturl.tests.callers import create_link, errors, text, user, with_token
from shorturl.tests.event_loop import count_hits
from shorturl.tests.statements import before_statement
from shorturl.tests.visits.recent import NEWS, PERSON, TODAY, add_recent
from shorturl.visits import statistics
from shorturl.visits.chart import Bar, Chart
from shorturl.visits.ranges import MAX_BUCKETS, Bucket, Range
from shorturl.visits.roll_up import roll_up_visits

pytestmark = pytest.mark.django_db

YESTERDAY, LAST_MONTH = TODAY - timedelta(days=1), TODAY - timedelta(days=20)
LONG_AGO = (daily_since(TODAY) - timedelta(days=1)).replace(day=1)  # is kept as a month
GOOGLEBOT = PERSON._replace(browser="Googlebot", is_bot=True)


@pytest.fixture
def link() -> ShortUrl:
    return create_link(target_url="https://example.com/page?a=1&b=2")


@pytest.fixture(params=[True, False], ids=["rolled up", "recent"])
def some_days(request: pytest.FixtureRequest) -> None:
    """Visits that are kept by the hour, by the day and by the month."""
    add_recent(*[PERSON] * 40, day=LONG_AGO)
    add_recent(*[NEWS] * 8, day=LAST_MONTH)
    add_recent(NEWS, day=YESTERDAY, hour=10)
    add_recent(PERSON._replace(referrer="other.example"), day=YESTERDAY, hour=23)
    add_recent(*[PERSON] * 2, *[GOOGLEBOT] * 3)
    if request.param:
        roll_up_visits()


def visits(client: Client, first: object = "", **query: Any) -> Any:
    """Return what the API answers for a range that begins with the day `first`."""
    if first:
        query["from"] = first
    response = client.get("/api/links/known/visits", query)
    assert response.status_code == 200, response.content
    return response.json()


def rows(answer: Any) -> list[tuple[Any, ...]]:
    """Return unit, start, value, people and bots of each item; unit or value may be None."""
    names = ("unit", "starts_at", "value", "people", "bots")
    return [tuple(item.get(name) for name in names) for item in answer["items"]]


def utc(day: date, hour: int = 0) -> str:
    return f"{day}T{hour:02}:00:00Z"


def test_the_page_shows_the_link_and_its_hits_and_adds_none(client: Client, link: ShortUrl) -> None:
    ShortUrl.objects.update(hits=12_345)
    with CaptureQueriesContext(connection) as sent:
        page = client.get("/known/stats")
    assert len(sent) == 2  # the link, and its hits and visits
    assertContains(page, "<title>known · shorturl")
    assertContains(page, 'value="http://testserver/known" readonly')
    target = "https://example.com/page?a=1&amp;b=2"
    assertContains(page, f'href="{target}" rel="nofollow noopener noreferrer ugc"')
    assert f" Target URL {target} " in text(page)
    assertContains(page, f'datetime="{link.created_at:%Y-%m-%dT%H:%M:%S}')
    assert " Hits 12,345 " in text(page)
    client.get("/known/qr.svg")
    assert ShortUrl.objects.get().hits == 12_345


@pytest.mark.parametrize("page", ["stats", "qr.svg", "qr.png"])
def test_an_unknown_or_deleted_link_has_no_pages(client: Client, link: ShortUrl, page: str) -> None:
    assert client.get(f"/known/{page}").status_code == 200
    link.delete()
    for key in ("known", "unknown"):
        assert client.get(f"/{key}/{page}").status_code == 404


@pytest.mark.parametrize("target_url", ["http://1234567890123/", "javascript:alert(1)", ""])
def test_a_target_that_no_browser_opens_is_shown_without_a_link(
    client: Client, target_url: str
) -> None:
    """Only SQL has stored it."""
    create_link(target_url=target_url)
    page = client.get("/known/stats")
    assert f" Target URL {target_url}" in text(page)
    assertNotContains(page, "ugc")  # the rel of a link to a target
    assert client.get("/known").status_code == client.get("/known+").status_code == 400


def test_the_qr_code_is_dark_on_light_with_its_margin(client: Client, settings: Settings) -> None:
    """A very short URL has no micro QR code either, because few phones read those."""
    settings.ALLOWED_HOSTS = ["a.b"]
    create_link("x")
    response = client.get("/x/qr.svg", headers={"host": "a.b"})
    assert response["Content-Type"] == "image/svg+xml"
    svg = ElementTree.fromstring(response.content)
    light, dark = svg.iter("{http://www.w3.org/2000/svg}path")
    expected = segno.make_qr("http://a.b/x")
    assert expected.symbol_size() > segno.make_micro("http://a.b/x").symbol_size()
    size = expected.symbol_size(border=0)[0] + 2 * 4  # four modules at each side
    assert svg.get("viewBox") == f"0 0 {size} {size}"
    assert (light.get("fill"), light.get("d")) == ("#fff", f"M0 0h{size}v{size}h-{size}z")
    assert dark.get("stroke") == "#000"
    assert f' d="{dark.get("d")}"' in expected.svg_inline()


@pytest.mark.parametrize(
    ("query", "width"),  # http://testserver/known has a code of 25 modules
    [
        ({}, 18 * (25 + 2 * 4)),
        ({"size": "100", "border": "0"}, 4 * 25),
        ({"size": "2000", "border": "20"}, 30 * (25 + 2 * 20)),
        ({"size": "99"}, None),
        ({"size": "1e3"}, None),
        ({"border": "21"}, None),
        ({"border": "-1"}, None),
    ],
)
def test_the_qr_code_is_saved_as_png_as_wide_as_fits(
    client: Client, link: ShortUrl, query: dict[str, str], width: int | None
) -> None:
    response = client.get("/known/qr.png", query)
    if width is None:
        assertContains(response, "Pixels" if "size" in query else "Border", status_code=400)
        return
    assert response["Content-Disposition"] == 'attachment; filename="known.png"'
    assert response.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(response.content[16:20]) == width  # of the header IHDR
    assertContains(client.get("/known/stats"), 'action="/known/qr.png"')


@pytest.mark.usefixtures("some_days")
def test_visits_are_counted_by_hour_day_and_month(client: Client) -> None:
    assert visits(client)["from"] == str(TODAY - timedelta(days=29))  # by default
    # Visits that are kept by month have no day, and those that are kept by day no hour.
    kept_by_month = ("month", utc(LONG_AGO), None, 40, 0)
    kept_by_day = ("day", utc(LAST_MONTH), None, 8, 0)
    assert rows(visits(client, LONG_AGO)) == [
        kept_by_month,
        kept_by_day,
        ("day", utc(YESTERDAY), None, 2, 0),
        ("day", utc(TODAY), None, 2, 3),
    ]
    assert rows(visits(client, LAST_MONTH, by="hour")) == [
        kept_by_day,
        ("hour", utc(YESTERDAY, 10), None, 1, 0),
        ("hour", utc(YESTERDAY, 23), None, 1, 0),
        ("hour", utc(TODAY), None, 2, 3),
    ]
    first, *others = rows(visits(client, LONG_AGO, by="month"))
    assert first == kept_by_month
    months = {day.replace(day=1) for day in (LAST_MONTH, YESTERDAY, TODAY)}
    assert [starts_at for _, starts_at, *_ in others] == [utc(month) for month in sorted(months)]
    assert sum(people for *_, people, _ in others) == 12
    assert sum(bots for *_, bots in others) == 3


def test_the_first_day_that_is_kept_by_a_shorter_unit_is_counted_once(client: Client) -> None:
    first_hours, first_days = hourly_since(TODAY), daily_since(TODAY)
    last_day = first_hours - timedelta(days=1)
    for day, hour in product((last_day, first_hours, first_days), (0, 23)):
        add_recent(PERSON, day=day, hour=hour)
    assert rows(visits(client, last_day, to=first_hours, by="hour")) == [
        ("day", utc(last_day), None, 2, 0),
        ("hour", utc(first_hours), None, 1, 0),
        ("hour", utc(first_hours, 23), None, 1, 0),
    ]
    assert rows(visits(client, first_days))[0] == ("day", utc(first_days), None, 2, 0)


@pytest.mark.usefixtures("some_days")
def test_visits_are_counted_by_referrer_browser_and_bot(client: Client) -> None:
    answer = visits(client, LAST_MONTH, of="referrer")
    assert rows(answer) == [
        (None, None, "news.example", 9, 0),
        (None, None, "", 2, 3),
        (None, None, "other.example", 1, 0),
    ]
    assert (answer["people"], answer["bots"]) == (12, 3)
    assert rows(visits(client, LAST_MONTH, of="bot")) == [(None, None, "Googlebot", 0, 3)]
    assert rows(visits(client, LAST_MONTH, of="browser")) == [(None, None, "Firefox", 12, 0)]
    assert rows(visits(client, LAST_MONTH, of="referrer", by="day")) == [
        ("day", utc(LAST_MONTH), "news.example", 8, 0),
        ("day", utc(YESTERDAY), "news.example", 1, 0),
        ("day", utc(YESTERDAY), "other.example", 1, 0),
        ("day", utc(TODAY), "", 2, 3),
    ]
    other = PERSON._replace(browser="Other")
    add_recent(other, *[other._replace(is_bot=True)] * 20)
    browsers = rows(visits(client, LAST_MONTH, of="browser"))  # by their people alone
    assert browsers == [(None, None, "Firefox", 12, 0), (None, None, "Other", 1, 0)]
    # Values of equal number are in the order of the alphabet.
    add_recent(*(NEWS._replace(referrer=letter) for letter in "bhdkfaigcjezzmm"), day=YESTERDAY)
    for query in ({}, {"by": "day"}):
        answer = visits(client, YESTERDAY, to=YESTERDAY, of="referrer", **query)
        assert [value for *_, value, _, _ in rows(answer)] == [
            *"mzabcdefghijk",
            "news.example",
            "other.example",
        ]


def test_more_items_than_an_answer_may_have_are_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (link_visits, statistics):
        monkeypatch.setattr(module, "MAX_ITEMS", 2)
    for number in range(3):
        day = TODAY - timedelta(days=number)
        add_recent(PERSON._replace(referrer=f"{number}.example"), day=day)
    for query in ({"by": "day"}, {"of": "referrer"}):
        assert len(visits(client, YESTERDAY, **query)["items"]) == 2
        response = client.get("/api/links/known/visits", query)
        assert (response.status_code, errors(response)) == (422, {"from": "too_many"})


@pytest.mark.usefixtures("some_days")
def test_visits_are_answered_as_csv_with_the_total(client: Client) -> None:
    query = {"from": str(LAST_MONTH), "to": str(TODAY), "of": "referrer"}
    path, accepts = "/api/links/known/visits", {"Accept": "text/csv"}
    expected = (
        "unit,starts_at,referrer,people,bots\n,,news.example,9,0\n,,,2,3\n,,other.example,1,0\n"
        "total,,,12,3\n"
    )
    response = client.get(path, query, headers=accepts)
    assert (response["Content-Type"], response["Vary"]) == ("text/csv; charset=utf-8", "Accept")
    assert response.text == client.get(path, {**query, "format": "csv"}).text == expected
    assert response["Content-Disposition"] == 'attachment; filename="known-visits.csv"'
    by_day = client.get(path, {"from": str(LAST_MONTH), "format": "csv"}).text
    assert f"\nday,{LAST_MONTH}T00:00:00+00:00,,8,0\n" in by_day
    assert client.get(path, {**query, "format": "json"}, headers=accepts).json()["people"] == 12


@pytest.mark.parametrize(
    ("query", "field", "message"),
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
def test_an_invalid_range_is_refused(
    client: Client, link: ShortUrl, query: str, field: str, message: str
) -> None:
    response = client.get(f"/api/links/known/visits?{query}")
    assert (response.status_code, list(errors(response))) == (422, [field])
    assert message in response.json()["detail"]
    # The page has no `of` and no `format`, and a field of its form may be empty.
    if field not in ("of", "format") and query != "from=":
        assertContains(client.get(f"/known/stats?{query}"), 'class="errorlist"', status_code=422)


@pytest.mark.usefixtures("some_days")
def test_the_first_and_the_last_day_of_the_calendar_can_be_shown(client: Client) -> None:
    for day, by in product(("0001-01-01", "9999-12-31"), Bucket):
        assert visits(client, day, to=day, by=by)["items"] == []
        assert visits(client, to=day)["hits"] == 55  # of the link, not only of the range
        assert client.get("/known/stats", {"from": day, "to": day, "by": by}).status_code == 200


@pytest.mark.parametrize("public", [False, True])
def test_visits_of_a_foreign_link_are_answered_if_they_are_public(
    client: Client, link: ShortUrl, settings: Settings, public: bool
) -> None:
    settings.SHORTURL_PUBLIC_STATS = public
    path = "/api/links/known/visits"
    assert client.get(path).status_code == (200 if public else 401)
    assert with_token(user=user()).get(path).status_code == (200 if public else 404)
    assert with_token(can_read=False).get(path).status_code == 403


def test_hits_and_visits_are_of_one_snapshot(client: Client) -> None:
    """A hit that arrives after the link was read is in both, as one statement reads both."""
    add_recent(PERSON)
    with before_statement("range.people", call=partial(add_recent, NEWS)):
        statistics = client.get("/known/stats").context["statistics"]
    assert (statistics.hits, statistics.recorded, statistics.people) == (2, 2, 2)


def test_hits_that_are_not_recorded_are_named(client: Client) -> None:
    add_recent(*[PERSON] * 1_000)
    assert "not recorded" not in text(client.get("/known/stats"))
    ShortUrl.objects.update(hits=1_234)
    assert "Of 1,234 hits, 234 are not recorded" in text(client.get("/known/stats"))
    assert visits(client)["not_recorded"] == 234
    day = TODAY - timedelta(days=3)
    answer = visits(client, day, to=day)  # no visit of that day; the other numbers are of all days
    assert (answer["people"], answer["recorded"], answer["not_recorded"]) == (0, 1_000, 234)
    add_recent(PERSON, day=LONG_AGO)
    assert visits(client, TODAY)["recorded"] == 1_001
    ShortUrl.objects.update(hits=1_002)
    page = text(client.get("/known/stats", {"from": str(LONG_AGO), "by": "day"}))
    assert "Of 1,002 hits, 1 is not recorded" in page
    assert "1 of these visits is stored by month only" in page


def test_hits_that_are_not_recorded_are_shown_only_for_the_whole_time_of_a_link(
    client: Client, link: ShortUrl
) -> None:
    ShortUrl.objects.update(hits=234, created_at=timezone.now() - timedelta(days=100))
    assert visits(client)["recorded"] is None
    assert "not recorded" not in text(client.get("/known/stats"))
    assert "234 are not recorded" in text(client.get("/known/stats?from=2020-01-01&by=month"))


def test_visits_can_be_turned_off_and_the_page_says_so(
    client: Client, link: ShortUrl, settings: Settings
) -> None:
    assertContains(client.get("/known/stats"), "No visit is recorded yet.")
    create_link("other")
    settings.SHORTURL_VISITS = False
    client.get("/known")
    count_hits(("known", PERSON))
    count_hits(("known", PERSON), ("other", PERSON))
    assert ShortUrl.objects.get(key="known").hits == 3
    assert not RecentVisits.objects.exists()
    assertContains(client.get("/known/stats"), "Visits are not recorded at present")


@pytest.mark.usefixtures("some_days")
def test_the_page_has_the_chart_as_a_table_and_the_values(client: Client) -> None:
    page = client.get("/known/stats", {"from": str(LONG_AGO), "by": "day"})
    day = f"{TODAY.day} {TODAY:%b %Y}"
    assertContains(page, f'href="/api/links/known/visits?from={LONG_AGO}&amp;by=day&amp;to={TODAY}')
    shown = text(page)
    assert f" {day} 2 3 " in shown  # people and bots
    assert "40 of these visits are stored by month only" in shown
    assert "Referrers none: typed in, or not sent 42 80.8% news.example 9 17.3%" in shown
    assert "Bots Googlebot 3 100.0%" in shown
    assert "all others" not in shown
    assertNotContains(page, "Countries")  # of which none is known


@pytest.mark.usefixtures("some_days")
def test_the_page_says_why_it_has_no_chart_and_which_days_it_shows(client: Client) -> None:
    last_month = {"from": str(LAST_MONTH), "to": str(LAST_MONTH), "by": "hour"}
    page = client.get("/known/stats", last_month)
    assert "8 of these visits are stored by day only" in text(page)
    assertNotContains(page, 'class="chart"')
    page = client.get("/known/stats", {"from": "2020-03-04", "to": "2020-03-05"})
    assertContains(page, "There are no visits in this range.")
    assertContains(page, "<h3>4 Mar 2020 – 5 Mar 2020")
    assertContains(client.get("/known/stats"), "<h3>Last 30 days")


def test_the_page_shows_the_ten_most_frequent_values_and_adds_up_the_others(client: Client) -> None:
    for number in range(12):
        visit = PERSON._replace(referrer=f"{number}.example", browser=f"Browser {number}")
        add_recent(*[visit] * (20 - number))
    add_recent(PERSON, GOOGLEBOT)
    page = text(client.get("/known/stats"))
    # 20 of 175 people came from 10.example, from 11.example, and one without a referrer.
    assert "9.example 11 6.3% all others 20 11.4%" in page
    # Twelve browsers are more frequent than the bot, and bots have a list of their own.
    assert "Bots Googlebot 1 100.0%" in page


def test_a_country_is_shown_by_its_code_which_the_browser_replaces_by_its_name(
    client: Client,
) -> None:
    add_recent(PERSON._replace(country="DE"))
    assertContains(client.get("/known/stats"), "<bdi data-country>DE")


def test_the_page_links_common_ranges_and_marks_the_one_that_is_shown(client: Client) -> None:
    add_recent(PERSON)
    ShortUrl.objects.update(created_at=datetime(2020, 3, 15, tzinfo=UTC))
    page = client.get("/known/stats")
    assertContains(page, f'href="?from=2020-03-01&amp;to={TODAY}&amp;by=month#visits">All')
    for days in (2, 30, 90):
        assertContains(page, f'href="?from={TODAY - timedelta(days=days - 1)}&amp;to={TODAY}')
    assertContains(page, 'aria-current="true">30 days')


@pytest.mark.parametrize(
    ("today", "a_year"),
    [("2028-02-29", "2027-03-01"), ("2028-02-01", "2027-03-01"), ("2027-12-31", "2027-01-01")],
)
def test_a_year_is_twelve_whole_months_on_any_day(
    client: Client, monkeypatch: pytest.MonkeyPatch, today: str, a_year: str
) -> None:
    add_recent(PERSON)
    noon = datetime.fromisoformat(f"{today}T12:00Z")
    monkeypatch.setattr(timezone, "now", lambda: noon)
    page = client.get("/known/stats")
    assertContains(page, f'href="?from={a_year}&amp;to={today}&amp;by=month')
    (days,) = [preset.days for preset in page.context["presets"] if preset.name == "A year"]
    assert days.count_buckets(Bucket.MONTH) == 12


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
    days = Range(date.fromisoformat(first), date.fromisoformat(last))
    assert len(days.buckets(unit)) == days.count_buckets(unit) <= MAX_BUCKETS
    chart = Chart([Bar(begin, 1, 1) for begin in days.buckets(unit)])
    assert (chart.bar_width < 1) is (len(chart.bars) <= 100)  # many bars have no space between
    assert 1 <= len(chart.ticks) <= 13
    assert "|".join(tick.label for tick in chart.ticks[:3]) == labels
    positions = [tick.position for tick in chart.ticks if not tick.minor]
    # In percent of the width: these are shown in a narrow window, too.
    assert all(later - sooner > 12 for sooner, later in pairwise(positions))


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (0, "0 1"),
        (7, "0 2 4 6 8"),
        (99, "0 20 40 60 80 100"),
        (12_345, "0 5,000 10k 15k"),
        (10**15, "0 200,000G 400,000G 600,000G 800,000G 1,000,000G"),
    ],
)
def test_the_chart_has_round_numbers_at_its_side(highest: int, labels: str) -> None:
    lines = Chart([Bar(timezone.now(), people=highest)]).lines
    assert " ".join(line.label for line in lines) == labels
    assert (lines[0].position, lines[-1].position) == (100, 0)  # percent from the top
