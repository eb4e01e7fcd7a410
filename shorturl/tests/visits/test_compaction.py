"""Compaction leaves everything that is shown of visits as it is, in fewer rows."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F, Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext

from shorturl.models import ShortUrl, Visit, VisitCount
from shorturl.models.hit_counts import ANY
from shorturl.visits import classification, compaction, roll_up
from shorturl.visits.classification import referrer_of
from shorturl.visits.compaction import CROWDED, move
from shorturl.visits.roll_up import CALM, roll_up_visits
from shorturl.visits.statistics import Dimension

NOW = datetime(2026, 3, 15, 12, 30, tzinfo=UTC)
THIS_HOUR = NOW.replace(minute=0)
MIDNIGHT = THIS_HOUR.replace(hour=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def link(db: None) -> ShortUrl:
    return ShortUrl.objects.create(key="hot", target_url="https://a.example/", created_at=NOW - DAY)


def add(link: ShortUrl, visits: Mapping[tuple[datetime, Visit], int]) -> None:
    """Record visits of past hours, as upsert does."""
    rows = sql.SQL("VALUES ") + sql.SQL(", ").join([compaction.ROW] * len(visits))
    values: list[Any] = []
    for (hour, visit), hits in visits.items():
        values += [link.key, hour, "h", *visit, hits]
    with connection.cursor() as cursor:
        cursor.execute(compaction.ADD.format(**compaction.NAMES, rows=rows), values)
    ShortUrl.objects.filter(pk=link.pk).update(hits=F("hits") + sum(visits.values()))


def numbered(number: int, browser: str = "Firefox") -> Visit:
    return Visit(f"{number}.example", browser, "Linux", "Computer", "DE", is_bot=False)


def record_at_random(link: ShortUrl, random: Random, number: int) -> None:
    """Record some of 600 kinds of visits in past hours of yesterday and today.

    Some hours are crowded, most are not. Some values are of people and bots, some are empty.
    """
    visits: Counter[tuple[datetime, Visit]] = Counter()
    for _ in range(number):
        hours = random.choice([1, 2, 2, random.randrange(1, 37)])
        visit = Visit(
            random.choice(["", "a.example", "b.example", "other", "c.example"]),
            random.choice(["Firefox", "Chrome", "Other", ""]),
            random.choice(["Linux", "", "Other"]),
            random.choice(["Phone", "Computer", ""]),
            random.choice(["", "DE", "FR", "US"]),
            is_bot=random.random() < 0.3,
        )
        visits[THIS_HOUR - hours * HOUR, visit] += random.randrange(1, 4)
    add(link, visits)


def shown(client: Client, *units: str) -> dict[str, Any]:
    """Return what the page and the API show, by these units and without one."""
    days = "from=2026-03-01&to=2026-03-31"
    path = "/api/links/hot/visits"
    found: dict[str, Any] = {}
    for by in units:
        page = client.get(f"/hot/stats?{days}&by={by}").context
        found[f"page by {by}"] = page["tables"], page["chart"].counts
    by_unit = [f"by={by}" for by in units]
    for query in by_unit + [f"{by}&of={of}" for of in (*Dimension, "bot") for by in ("", *by_unit)]:
        answer = client.get(f"{path}?{days}&{query}").json()
        answer["items"].sort(key=str)  # equal counts have no order
        found[query] = answer
    found["CSV"] = sorted(client.get(f"{path}?{days}&{query}&format=csv").text.splitlines())
    # There are visits before and after this day.
    found["recorded"] = client.get(f"{path}?from=2026-03-14&to=2026-03-14").json()["recorded"]
    return found


def sums(link: ShortUrl) -> dict[str, Counter[tuple[str, bool]]]:
    found = {}
    for dimension in Dimension:
        rows = VisitCount.objects.filter(short_url=link).exclude(**{dimension: ANY})
        by_value = rows.values_list(dimension, "is_bot").annotate(Sum("hits"))
        found[dimension.value] = Counter({(value, bot): hits for value, bot, hits in by_value})
    return found


def each_is_there_once(link: ShortUrl) -> None:
    link.refresh_from_db()
    for dimension, counts in sums(link).items():
        assert counts.total() == link.hits, dimension
    each_once = VisitCount.objects.each_once().filter(short_url=link)
    assert each_once.aggregate(hits=Sum("hits"))["hits"] == link.hits


@pytest.mark.parametrize(
    "seed",
    [
        0,
        1,
        *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 5)),
    ],
)
def test_what_is_shown_stays_from_hours_to_months(
    seed: int,
    link: ShortUrl,
    client: Client,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after visits of an hour or a day that is already compacted; also on a cluster."""
    if seed % 2:
        request.getfixturevalue("clusters_way")
    monkeypatch.setattr(compaction, "CROWDED", 10)
    random = Random(seed)
    record_at_random(link, random, 150)
    for units, later in [
        (("hour", "day"), 0 * DAY),
        (("hour", "month"), 0 * DAY),
        (("day", "month"), 3 * DAY),
        (("day", "month"), 20 * DAY),
        (("month",), 800 * DAY),
    ]:
        record_at_random(link, random, 40)
        before, kept, rows = shown(client, *units), sums(link), VisitCount.objects.count()
        assert roll_up_visits(NOW + later) > 0
        assert VisitCount.objects.count() < rows
        assert shown(client, *units) == before
        assert sums(link) == kept
        each_is_there_once(link)
        assert roll_up_visits(NOW + later) == 0
    assert VisitCount.objects.filter(unit="m", referrer=ANY).exists()


def test_times_with_a_few_kinds_are_not_compacted(link: ShortUrl) -> None:
    """The rows that the day would have count, not the rows of its hours."""
    day = MIDNIGHT - 20 * DAY
    add(link, {(day + hour * HOUR, numbered(n)): 1 for hour in range(24) for n in range(3)})
    quiet = ShortUrl.objects.create(key="quiet", target_url="https://a.example/")
    for hour in (THIS_HOUR - HOUR, THIS_HOUR):
        add(link, {(hour, numbered(number)): 1 for number in range(CROWDED + 1)})
    add(quiet, {(THIS_HOUR - HOUR, numbered(1)): 1})
    assert roll_up_visits(NOW) == 3 * 24 + CROWDED + 1
    rows = VisitCount.objects.filter(short_url=link)
    assert rows.filter(unit="d").count() == 3
    assert rows.filter(starts_at=THIS_HOUR - HOUR).count() == CROWDED + 1 + 4
    assert not VisitCount.objects.filter(short_url=quiet, referrer=ANY).exists()
    assert not rows.filter(starts_at=THIS_HOUR, referrer=ANY).exists()


def test_a_day_can_be_crowded_whose_hours_are_not(link: ShortUrl) -> None:
    day = MIDNIGHT - 20 * DAY
    add(link, {(day + n % 24 * HOUR, numbered(n, f"{n % 2}")): 1 for n in range(CROWDED + 1)})
    assert roll_up_visits(NOW) == CROWDED + 1
    rows = VisitCount.objects.filter(unit="d", starts_at=day)
    assert rows.count() == VisitCount.objects.count() == CROWDED + 1 + 2 + 3
    each_is_there_once(link)


@pytest.mark.parametrize("crowded", [3, CROWDED])
def test_hours_of_some_days_ago_keep_their_devices_alone(
    crowded: int, link: ShortUrl, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CROWDED", crowded)
    days = [MIDNIGHT - number * DAY for number in (2, 3, 4)]
    bots = [Visit(f"{number}.example", "curl", "Other", "Other") for number in (1, 3)]
    kinds = [*bots, numbered(0), numbered(2)]
    add(link, {(day + h * HOUR, kind): 1 for day in days for h in range(24) for kind in kinds})
    before = shown(client, "hour", "day")
    assert roll_up_visits(NOW) > 0
    after = shown(client, "hour", "day")
    for of in ("referrer", "browser", "system", "country", "bot"):
        del before[f"by=hour&of={of}"]
        by_hour = after.pop(f"by=hour&of={of}")
        assert {each["unit"] for each in by_hour["items"]} == {"day"}
        assert by_hour["items"] == after[f"by=day&of={of}"]["items"]
    assert after == before
    each_is_there_once(link)
    rows = VisitCount.objects.filter(short_url=link)
    hours = rows.filter(unit="h")
    assert hours.count() == 3 * 24 * 2
    assert not hours.exclude(referrer=ANY, device__in=["Computer", "Other"]).exists()
    assert set(rows.filter(unit="d").values_list("starts_at", flat=True)) == set(days)
    assert rows.filter(unit="d").count() == 3 * (4 + 2 + 2 + 2)
    assert roll_up_visits(NOW) == 0


def test_hours_of_the_last_days_and_days_with_few_rows_stay(link: ShortUrl) -> None:
    for number in range(CROWDED):
        for hour in (MIDNIGHT - 2 * DAY + number % 24 * HOUR, MIDNIGHT - DAY + number % 24 * HOUR):
            add(link, {(hour, numbered(number)): 1})
        add(link, {(MIDNIGHT - HOUR, numbered(number)): 1})
    assert roll_up_visits(NOW) == 0
    assert not VisitCount.objects.filter(referrer=ANY).exists()


def test_it_looks_back_until_no_hour_of_a_day_was_crowded(
    link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CROWDED", 1)
    monkeypatch.setattr(roll_up, "DETAILED_DAYS", 4)
    hours = [THIS_HOUR - number * HOUR for number in range(1, 3 * CALM + 2)]
    add(link, {(hour, numbered(1)): 1 for hour in hours})
    add(link, {(hours[n], numbered(2)): 1 for n in (CALM - 1, 2 * CALM - 1, 3 * CALM)})
    assert roll_up_visits(NOW) == 4
    compacted = VisitCount.objects.filter(referrer=ANY).order_by("-starts_at")
    times = compacted.values_list("starts_at", flat=True).distinct()
    assert list(times) == [hours[CALM - 1], hours[2 * CALM - 1]]


def test_it_goes_on_until_a_batch_is_not_full(
    link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CROWDED", 2)
    monkeypatch.setattr(compaction, "BATCH", 2)
    add(link, {(THIS_HOUR - HOUR, numbered(number)): 1 for number in range(5)})
    assert roll_up_visits(NOW) == 5
    assert VisitCount.objects.count() == 5 + 4
    each_is_there_once(link)


def test_statements_use_the_indexes(link: ShortUrl) -> None:
    kind = {"unit": "h", "starts_at": NOW - HOUR, **numbered(1)._asdict()}
    VisitCount.objects.bulk_create(
        VisitCount(short_url_id=f"k{number}", **kind) for number in range(2_000)
    )
    with CaptureQueriesContext(connection) as sent:
        compaction.crowded(compaction.FIND, "h", NOW - HOUR, NOW)
        move(link.key, "h", "h", NOW - HOUR, NOW)
        compaction.crowded(compaction.FIND_DETAILED, NOW - HOUR, NOW)
        next(compaction.times("h", "h", NOW), None)
    conditions = [
        "Index Cond: (((unit)::text = 'h'::text) AND (starts_at ",
        "Index Cond: (((key)::text = ",
        "Index Cond: (((unit)::text = 'h'::text) AND (starts_at ",
        "Index Cond: ((unit = 'h'::text) AND (starts_at ",
    ]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE shorturl_visitcount")
        cursor.execute("SET LOCAL enable_seqscan = off")
        for each, condition in zip(sent, conditions, strict=True):
            cursor.execute(f"EXPLAIN {each['sql']}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert condition in plan, plan


def test_no_visit_says_any() -> None:
    families = (classification.BROWSERS, classification.BOTS, classification.SYSTEMS)
    listed = {value for each in families for value in each.values()} | classification.COMPUTERS
    listed |= {classification.PHONE, classification.TABLET, classification.COMPUTER}
    assert ANY not in listed | {classification.OTHER, classification.OTHER_FAMILY}
    for header in (ANY, f"https://{ANY}", f"https://{ANY}/", f"http://{ANY}.", f"//{ANY}"):
        assert referrer_of(header) == classification.OTHER
    assert ANY not in classification.families_of(ANY)[:3]
