"""GET /api/links and GET /api/links/{key}"""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from shorturl.models import ShortUrl
from shorturl.tests.callers import TARGET, fields, user

pytestmark = pytest.mark.django_db


def make(count: int) -> None:
    for number in range(count):
        ShortUrl.objects.create(key=f"key{number}", target_url=TARGET, hits=number)


def keys(response: Any) -> list[str]:
    return [link["key"] for link in response.json()["items"]]


def test_newest_first_a_page_at_a_time(client: Client, headers: dict[str, str]) -> None:
    make(5)
    ShortUrl.objects.get(key="key2").delete()
    first = client.get("/api/links?limit=2", headers=headers)
    assert keys(first) == ["key4", "key3"]
    # Creating or deleting links between two pages shifts nothing, not even the last link shown.
    ShortUrl.objects.create(key="new", target_url=TARGET)
    ShortUrl.objects.get(key="key3").delete()
    assert first.json()["next"] == "http://testserver/api/links?limit=2&after=key3"
    second = client.get(first.json()["next"], headers=headers)
    assert (keys(second), second.json()["next"]) == (["key1", "key0"], None)  # though just full


def test_a_page_holds_fifty_by_default_in_few_statements(
    client: Client, headers: dict[str, str], django_assert_num_queries: Any
) -> None:
    make(51)
    with django_assert_num_queries(2):  # the token and the page
        assert len(keys(client.get("/api/links", headers=headers))) == 50


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=CATA", ["tagged"]),
        ("tags=Spring", ["late", "tagged"]),
        ("tags=spring,news", ["tagged"]),
        ("state=expired&q=&tags=", ["late"]),
        ("state=live&tags=spring", ["tagged"]),
        ("q=_", []),
    ],
)
def test_filters(client: Client, headers: dict[str, str], query: str, expected: list[str]) -> None:
    make(1)
    create = ShortUrl.objects.create
    create(key="tagged", target_url=TARGET, title="Catalogue", tags=["spring", "news"])
    create(key="late", target_url=TARGET, tags=["spring"], expires_at=timezone.now())
    page = client.get(f"/api/links?limit=1&{query}", headers=headers)
    listed = keys(page)
    while following := page.json()["next"]:
        page = client.get(following, headers=headers)
        listed += keys(page)
    assert listed == expected


def test_an_index_finds_the_tags() -> None:
    """The index is partial, and the query does not repeat its condition."""
    make(1)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    links = ShortUrl.objects.matching({"q": "", "tags": ["spring"], "state": ""})
    assert "shorturl_shorturl_tags_ix" in links.explain()


@pytest.mark.parametrize(
    ("query", "name", "says"),
    [
        ("tag=spring", "tag", "The parameter is not known: use limit, after, q, tags, state."),
        ("tags=a&tags=b", "tags", "occurs more than once"),
        ("limit=0", "limit", "greater than or equal to 1"),
        ("limit=101", "limit", "less than or equal to 100"),
        ("after=unknown", "after", "use the last key of a page"),
        ("after=%00", "after", "is not a valid key"),
        ("q=%00", "q", "contains the character U+0000"),
        ("tags=" + "x" * 51, "tags", "use at most 50"),
        ("state=deleted", "state", "'live', 'expired' or 'used up'"),
    ],
)
def test_an_invalid_parameter_is_named(
    client: Client, headers: dict[str, str], query: str, name: str, says: str
) -> None:
    response = client.get(f"/api/links?{query}", headers=headers)
    assert (response.status_code, list(fields(response))) == (422, [name])
    assert says in response.json()["detail"]


def test_reading_one_link_counts_no_hit_and_is_not_cached(
    client: Client, django_assert_num_queries: Any
) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET, hits=2**62)
    client.force_login(user())
    assert client.head("/api/links/known").status_code == 200
    with django_assert_num_queries(1):  # even with a login
        response = client.get("/api/links/known")
    assert response["Cache-Control"] == "no-store"
    link = response.json()
    assert (link["key"], link["hits"], link["target_url"]) == ("known", 2**62, TARGET)
    assert link["short_url"] == "http://testserver/known"
