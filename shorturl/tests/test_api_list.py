"""GET /api/links"""

from typing import Any

import pytest
from django.test import Client

from shorturl.models import ShortUrl
from shorturl.tests.api import TARGET, bearer, fields

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
    address, seen = "http://testserver/api/links?limit=2", []
    while address:
        response = client.get(address, headers=headers)
        seen.append(keys(response))
        address = response.json()["next"]
    assert seen == [["key4", "key3"], ["key2", "key1"], ["key0"]]


def test_a_page_that_is_just_full_is_the_last(client: Client, headers: dict[str, str]) -> None:
    make(2)
    response = client.get("/api/links?limit=2", headers=headers)
    assert (keys(response), response.json()["next"]) == (["key1", "key0"], None)


def test_a_page_holds_fifty_unless_told(client: Client, headers: dict[str, str]) -> None:
    make(51)
    assert len(keys(client.get("/api/links", headers=headers))) == 50


def test_what_happens_between_two_pages_shifts_nothing(
    client: Client, headers: dict[str, str]
) -> None:
    """After the first page one link is made, and the very link it ended with is deleted."""
    make(4)
    first = client.get("/api/links?limit=2", headers=headers)
    ShortUrl.objects.create(key="new", target_url=TARGET)
    ShortUrl.objects.get(key="key2").delete()
    second = client.get(first.json()["next"], headers=headers)
    assert (keys(first), keys(second)) == (["key3", "key2"], ["key1", "key0"])


def test_deleted_ones_are_left_out(client: Client, headers: dict[str, str]) -> None:
    make(3)
    ShortUrl.objects.get(key="key1").delete()
    assert keys(client.get("/api/links", headers=headers)) == ["key2", "key0"]


@pytest.mark.parametrize("limit", ["0", "101", "9" * 5_000, "many", "", "%00"])
def test_a_page_size_out_of_bounds(client: Client, headers: dict[str, str], limit: str) -> None:
    response = client.get(f"/api/links?limit={limit}", headers=headers)
    assert response.status_code == 422
    assert list(fields(response)) == ["limit"]


@pytest.mark.parametrize("after", ["unknown", "%00", "%FF", ""])
def test_a_place_to_go_on_that_is_none(client: Client, headers: dict[str, str], after: str) -> None:
    response = client.get(f"/api/links?after={after}", headers=headers)
    assert response.status_code == 422
    assert list(fields(response)) == ["after"]


def test_a_bounded_number_of_statements(
    client: Client, headers: dict[str, str], django_assert_num_queries: Any
) -> None:
    make(20)
    with django_assert_num_queries(2):  # the token and the page
        client.get("/api/links", headers=headers)
    with django_assert_num_queries(3):  # and the place to go on
        client.get("/api/links?after=key9", headers=headers)
