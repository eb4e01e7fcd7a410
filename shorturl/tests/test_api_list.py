"""GET /api/links and GET /api/links/{key}"""

from typing import Any

import pytest
from django.test import Client

from shorturl.models import ShortUrl
from shorturl.tests.api import TARGET, bearer, fields, user

pytestmark = pytest.mark.django_db


@pytest.fixture
def headers() -> dict[str, str]:
    return bearer()


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
    # What is made or deleted between two pages shifts nothing, be it the link that one ended with.
    ShortUrl.objects.create(key="new", target_url=TARGET)
    ShortUrl.objects.get(key="key3").delete()
    assert first.json()["next"] == "http://testserver/api/links?limit=2&after=key3"
    second = client.get(first.json()["next"], headers=headers)
    assert (keys(second), second.json()["next"]) == (["key1", "key0"], None)  # though just full


def test_a_page_holds_fifty_unless_told_in_few_statements(
    client: Client, headers: dict[str, str], django_assert_num_queries: Any
) -> None:
    make(51)
    with django_assert_num_queries(2):  # the token and the page
        assert len(keys(client.get("/api/links", headers=headers))) == 50
    with django_assert_num_queries(3):  # and the place to go on
        assert len(keys(client.get("/api/links?after=key9", headers=headers))) == 9


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("limit", "101"), ("after", "unknown"), ("after", "%00"), ("after", "")],
)
def test_a_page_that_is_none(
    client: Client, headers: dict[str, str], name: str, value: str
) -> None:
    response = client.get(f"/api/links?{name}={value}", headers=headers)
    assert (response.status_code, list(fields(response))) == (422, [name])


def test_one_link_counts_no_hit_and_is_not_for_caches(
    client: Client, django_assert_num_queries: Any
) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET, hits=2**62)
    client.force_login(user())
    assert client.head("/api/links/known").status_code == 200
    with django_assert_num_queries(1):  # even for who is logged in
        response = client.get("/api/links/known")
    assert response["Cache-Control"] == "no-store"
    link = response.json()
    assert (link["key"], link["hits"], link["target_url"]) == ("known", 2**62, TARGET)
    assert link["short_url"] == "http://testserver/known"
