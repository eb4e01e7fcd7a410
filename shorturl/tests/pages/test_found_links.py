"""What a user's list finds: its visits together, its file and the last seven days; and tags."""

import csv
import re
from collections import Counter
from datetime import timedelta
from html import unescape
from itertools import chain, product, repeat
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl.models import ShortUrl
from shorturl.tests.callers import OTHER, TARGET, create_link, errors, text, user, with_token
from shorturl.tests.statements import before_statement
from shorturl.tests.visits.recent import BOT, NEWS, PERSON, TODAY, add_recent
from shorturl.visits.roll_up import roll_up_visits
from shorturl.visits.statistics import Statistics

pytestmark = pytest.mark.django_db

AGES = {0: 1, 6: 2, 7: 4, 100: 8, 900: 16}  # how many visits of a link are how many days old
LINKS = {"one": ["spring"], "two": ["spring", "news"], "old": None}


@pytest.fixture
def owner(client: Client) -> User:
    """Log in the owner of three links, of one that is deleted, and see another's link."""
    owner = user()
    client.force_login(owner)
    for key, tags in LINKS.items():
        create_link(key, owner=owner, tags=tags)
    create_link("gone", owner=owner, tags=["spring"]).delete()
    create_link("theirs", owner=user(), tags=["spring", "theirs"])
    return owner


@pytest.fixture(params=[True, False], ids=["rolled up", "recent"])
def visited(owner: User, request: pytest.FixtureRequest) -> None:
    """Each link has visits of several ages: `one` as in AGES, and the others more."""
    for factor, key in enumerate([*LINKS, "gone", "theirs"], start=1):
        for age, number in AGES.items():
            visits = [NEWS, PERSON._replace(country="DE"), BOT] * (number * factor)
            add_recent(*visits, day=TODAY - timedelta(days=age), hour=age % 5, key=key)
    if request.param:
        roll_up_visits()


def add_items(answers: list[Any]) -> Counter[tuple[Any, ...]]:
    """Return the sums of people and bots by unit, start and value of all answers of the API."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for item in (item for answer in answers for item in answer["items"]):
        for name in ("people", "bots"):
            sums[item["unit"], item["starts_at"], item["value"], name] += item[name]
    return sums


@pytest.mark.usefixtures("visited")
@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["one", "two", "old"]),
        ({"tags": "spring"}, ["one", "two"]),
        ({"tags": "spring, news"}, ["two"]),
        ({"q": "O", "state": "live"}, ["one", "two", "old"]),
        ({"tags": "50%"}, []),
    ],
)
def test_the_visits_of_links_are_the_sums_of_each_links_visits(
    client: Client, filters: dict[str, str], found: list[str]
) -> None:
    first = TODAY - timedelta(days=950)
    for by, of in [*product(["day", "month"], [None, "country"]), ("hour", None), (None, "bot")]:
        query: dict[str, Any] = {"from": str(first), "by": by, "of": of}
        if by == "hour":
            query["from"] = str(TODAY - timedelta(days=10))
        query = {name: value for name, value in query.items() if value}
        together = client.get("/api/visits", {**filters, **query}).json()
        each = [client.get(f"/api/links/{key}/visits", query).json() for key in found]
        assert add_items([together]) == add_items(each)
        assert together["links"] == len(found)
        for name in ("hits", "people", "bots", "recorded"):
            assert together[name] == (sum(answer[name] or 0 for answer in each) or 0)
    page = client.get("/links/found/stats", {**filters, "from": str(first), "by": "day"})
    shown: Statistics = page.context["statistics"]
    assert (shown.hits, shown.people) == (together["hits"], together["people"])
    if found:
        answer = client.get(csv_path(page))
        assert 'filename="links-visits.csv"' in answer["Content-Disposition"]
        assert f" Hits {together['hits']:,} " in text(page)
        (total,) = [row for row in csv.reader(answer.text.splitlines()) if row[0] == "total"]
        assert total[3:] == [str(together["people"]), str(together["bots"])]


def csv_path(page: Any) -> str:
    (path,) = re.findall(r'href="(/api/visits[^"]*)"', page.text)
    return unescape(path)


def test_the_page_of_a_tag_keeps_it_in_other_ranges(client: Client, owner: User) -> None:
    add_recent(PERSON, key="two")
    page = client.get("/links/found/stats?tags=spring&q=t")
    assert "My links tagged spring with “t”" in text(page)
    created = ShortUrl.objects.get(key="one").created_at
    assert f" Links 2 Hits 1 The first created {created:%-d %b %Y, %H:%M} UTC" in text(page)
    found = client.get(f"/links/found/stats?tags=spring&from={TODAY}&to={TODAY}&by=day")
    assertContains(found, 'href="/links?tags=spring">List them<')
    assertContains(page, f'href="?tags=spring&amp;q=t&amp;from={TODAY - timedelta(days=1)}&amp;')
    for name, value in {"tags": "spring", "q": "t"}.items():
        assertContains(page, f'<input type="hidden" name="{name}" value="{value}">')
    assertContains(client.get("/two/stats"), 'href="/links/found/stats?tags=spring">spring<')
    assertContains(client.get("/links?tags=spring&page=1"), "/links/found/stats?tags=spring")
    assertContains(client.get("/links/found/stats?from=x"), 'class="errorlist"', status_code=422)


@pytest.mark.parametrize("path", ["/links/found/stats", "/links/found.csv"])
def test_only_the_owner_sees_what_the_list_finds(client: Client, owner: User, path: str) -> None:
    add_recent(PERSON, key="one")
    assertContains(client.get(path), "spring" if path.endswith("csv") else "Last 30 days")
    assertRedirects(Client().get(path), f"/account/login/?next={path}")
    assertContains(client.get(f"{path}?state=x"), "Choose live, expired", status_code=400)
    for other in (user(), user("view_shorturl", staff=True)):
        client.force_login(other)
        page = client.get(path)
        assertNotContains(page, "one")
        assert client.get("/api/visits").json()["links"] == 0
    assert client.post(path).status_code == 405


def test_a_token_reads_the_visits_of_its_users_links(owner: User) -> None:
    for token, status, links in [
        (with_token(user=owner), 200, 3),
        (with_token(user=user()), 200, 0),
        (with_token(), 200, 4),  # a token of nobody has all links
        (with_token(can_read=False), 403, None),
        (Client(), 401, None),
    ]:
        response = token.get("/api/visits?by=day")
        assert (response.status_code, response.json().get("links")) == (status, links)
    for query in ("tag=spring", "of=referrer&by=hour", "state=deleted"):
        response = with_token().get(f"/api/visits?{query}")
        assert (response.status_code, list(errors(response))) == (422, [query.partition("=")[0]])


@pytest.mark.usefixtures("visited")
def test_the_list_has_the_last_seven_days_and_is_ordered_by_them(client: Client) -> None:
    create_link("new", owner=ShortUrl.objects.get(key="one").owner)
    add_recent(*[PERSON] * 28, key="new")
    links = list(client.get("/links?order=week").context["page"])
    assert [link.key for link in links] == ["new", "old", "two", "one"]
    for link in links:
        week = {"from": str(TODAY - timedelta(days=6))}
        visits = client.get(f"/api/links/{link.key}/visits", week).json()
        assert link.last_week == visits["people"] + visits["bots"]
    assert " 93 hits 9 in 7 days " in text(client.get("/links"))


def test_the_list_is_saved_as_csv_as_it_was_found(client: Client, owner: User) -> None:
    ShortUrl.objects.filter(key="two").update(title="=1+1")
    add_recent(*[PERSON] * 2, key="two")
    response = client.get("/links/found.csv?tags=spring&order=week&page=9")
    assert response["Content-Disposition"] == 'attachment; filename="links.csv"'
    first, second = csv.DictReader(response.text.splitlines())
    assert (first["short_url"], first["title"]) == ("http://testserver/two", "'=1+1")
    assert (first["tags"], first["hits"], first["last_week"]) == ("spring,news", "2", "2")
    assert (second["key"], second["target_url"], second["state"]) == ("one", TARGET, "live")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("http://testserver/one", "one"),
        (" https://TestServer/one+ ", "one"),
        ("testserver/one/stats?from=2026-01-01", "one"),
        ("http://testserver/on", None),  # a part of a key
        ("http://testserver/ONE", None),
        ("http://other.example/one", None),
        ("testserver/", None),
    ],
)
def test_a_pasted_short_url_is_found(
    client: Client, owner: User, text: str, key: str | None
) -> None:
    expected = [key] if key else []
    assert [link.key for link in client.get("/links", {"q": text}).context["page"]] == expected
    assert [
        link["key"] for link in client.get("/api/links", {"q": text}).json()["items"]
    ] == expected
    assert client.get("/links/found/stats", {"q": text}).context["statistics"].links == bool(key)


def test_own_tags_are_suggested_and_semicolons_separate_them(client: Client, owner: User) -> None:
    for path in ("/", "/links", "/links/one"):
        page = client.get(path)
        assertContains(
            page, '<datalist id="used-tags"><option value="spring"><option value="news">'
        )
        assert page.context["used_tags"] == ["spring", "news"]  # and none of others' links
        assertContains(page, 'list="used-tags"')
    client.post("/links/one", {"target_url": TARGET, "tags": "a; b,c|d"})
    assert ShortUrl.objects.get(key="one").tags == ["a", "b", "c", "d"]
    assertContains(client.get("/links?tags=b;c"), "/one/stats")


@pytest.mark.parametrize("path", ["/", "/links"])
@pytest.mark.parametrize(("key", "other"), [("ONE", "one"), ("Gone", ""), ("_ne", ""), ("", "")])
def test_a_new_key_that_differs_only_in_case_is_told_so(
    client: Client, owner: User, path: str, key: str, other: str
) -> None:
    page = client.post(path, {"target_url": OTHER, "key": key}, follow=True)
    assert (f"Mind the case: /{other} is another short URL." in text(page)) == bool(other)
    assert ("Mind the case" in text(page)) == bool(other)


@pytest.mark.django_db(transaction=True)
def test_a_range_that_takes_too_long_is_answered_with_one_that_does_not(
    client: Client, owner: User
) -> None:
    """PostgreSQL cancels the statement of the long range, as statement_timeout does."""

    def cancel_first() -> None:
        if next(is_first):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)")

    add_recent(NEWS, PERSON, key="one")
    year = f"from={TODAY - timedelta(days=364)}&by=month"
    advice = "Adding up the visits of 365 days takes too long: choose fewer, such as 36."
    for path in (f"/links/found/stats?{year}", f"/one/stats?{year}", f"/api/visits?{year}"):
        is_first = chain([True], repeat(False))
        with before_statement("range.people", call=cancel_first):
            response = client.get(path)
        assert response.status_code == 422
        if path.startswith("/api"):
            assert errors(response) == {"from": "too_many_visits"}
            assert response.json()["detail"] == f"from: {advice}"
        else:
            assertContains(response, advice, status_code=422)
            assertContains(response, ">30 days<", status_code=422)
            assert response.context["statistics"].hits == 2


def test_indexes_find_the_visits_of_a_tag_and_keys_without_case(
    client: Client, owner: User
) -> None:
    """With few rows PostgreSQL scans, unless that is forbidden; then it does what has no index."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        for path in ("/links/found/stats?tags=spring", "/links?order=week", "/one/stats"):
            with CaptureQueriesContext(connection) as sent:
                assert client.get(path).status_code == 200
            (read,) = [query["sql"] for query in sent if "dailyvisits" in query["sql"]]
            cursor.execute(f"EXPLAIN {read}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan" not in plan
            assert re.search(r"Index Cond: .*dimension.*", plan)
    assert "shorturl_shorturl_case_ix" in ShortUrl.objects.filter(key__iexact="x").explain()
