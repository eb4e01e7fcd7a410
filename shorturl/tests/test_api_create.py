"""POST /api/links"""

from typing import Any

import pytest
from django.test import Client
from django.utils.dateparse import parse_datetime

from shorturl.models import ShortUrl
from shorturl.tests.api import OTHER, TARGET, bearer, create, fields

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _public(settings: Any) -> None:
    settings.SHORTURL_PUBLIC_CREATE = True


def test_makes_a_short_url(client: Client) -> None:
    response = create(client, {"target_url": TARGET})
    link = response.json()
    stored = ShortUrl.objects.get()
    assert response.status_code == 201
    assert response["Location"] == f"http://testserver/api/links/{stored.key}"
    assert parse_datetime(link.pop("created_at"))
    assert link == {
        "key": stored.key,
        "short_url": f"http://testserver/{stored.key}",
        "target_url": TARGET,
        "hits": 0,
    }
    assert client.get(f"/{stored.key}")["Location"] == TARGET
    assert client.get(response["Location"]).json()["hits"] == 1


def test_a_custom_key(client: Client) -> None:
    response = create(client, {"target_url": TARGET, "key": "My_page-1"})
    assert (response.status_code, response.json()["key"]) == (201, "My_page-1")


def test_null_asks_for_a_random_key(client: Client) -> None:
    response = create(client, {"target_url": TARGET, "key": None})
    assert (response.status_code, len(response.json()["key"])) == (201, 7)


def test_a_taken_custom_key(client: Client) -> None:
    create(client, {"target_url": TARGET, "key": "wanted"})
    response = create(client, {"target_url": OTHER, "key": "wanted"})
    assert (response.status_code, fields(response)) == (409, {"key": "taken"})
    assert response.json()["detail"] == (
        "key: The key 'wanted' is taken. Choose another, or leave it out for a random one."
    )
    assert ShortUrl.objects.get().target_url == TARGET


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("", "malformed"),
        ("a" * 21, "malformed"),
        ("nul\0", "malformed"),
        ("api", "reserved"),
        (7, "string_type"),
        (True, "string_type"),
        ("\ud800", "malformed"),
    ],
)
def test_a_key_that_cannot_be_one(client: Client, key: Any, code: str) -> None:
    response = create(client, {"target_url": TARGET, "key": key})
    assert (response.status_code, fields(response)) == (422, {"key": code})
    assert not ShortUrl.objects.exists()


@pytest.mark.parametrize(
    ("target_url", "code", "says"),
    [
        ("javascript:alert(1)", "scheme", "start it with http:// or https://"),
        ("", "scheme", "start it with http:// or https://"),
        ("https://example.com/\0", "forbidden_character", "percent-encode it"),
        ("https://example.com/{a} b", "forbidden_character", "percent-encode it"),
        ("https://testserver/page", "own_host", "link to the page it leads to"),
        ("https://example.com/\ud800", "forbidden_character", "leave it out"),
        (None, "string_type", "must be a string"),
        (7, "string_type", "must be a string"),
    ],
)
def test_a_target_that_cannot_be_one(client: Client, target_url: Any, code: str, says: str) -> None:
    response = create(client, {"target_url": target_url})
    assert (response.status_code, fields(response)) == (422, {"target_url": code})
    detail = response.json()["detail"]
    assert detail.startswith("target_url: ")
    assert says in detail
    assert detail.endswith(".")
    assert not detail.endswith("..")
    assert not ShortUrl.objects.exists()


def test_every_other_host_of_the_service_is_its_own(client: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver", "sho.rt"]
    assert create(client, {"target_url": "https://SHO.rt/page"}).status_code == 422


def test_several_faults_are_told_at_once(client: Client) -> None:
    response = create(client, {"target_url": "no", "key": "api", "hits": 5})
    assert response.status_code == 422
    assert fields(response) == {
        "target_url": "scheme",
        "key": "reserved",
        "hits": "extra_forbidden",
    }


@pytest.mark.parametrize("body", ["[]", "null"])
def test_a_body_that_is_no_object(client: Client, body: str) -> None:
    response = create(client, body)
    assert response.status_code == 422
    assert list(fields(response)) == ["body"]
    assert response.json()["detail"] == "body: It must be a JSON object."


def test_no_body(client: Client) -> None:
    response = create(client, b"")
    assert (response.status_code, fields(response)) == (422, {"body": "missing"})


def test_what_it_repeats_of_an_input_is_bounded(client: Client) -> None:
    unknown = {f"{number}" + "x" * 500: 1 for number in range(100)}
    response = create(client, {"target_url": TARGET, **unknown})
    assert response.status_code == 422
    assert len(response.content) < 5_000


def test_no_free_key(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, {"target_url": TARGET, "key": "same"})
    monkeypatch.setattr("shorturl.keys.draw", lambda length: "same")
    response = create(client, {"target_url": TARGET})
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert "Every candidate key was taken; tried" in response.json()["detail"]


def test_one_statement(client: Client, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        create(client, {"target_url": TARGET})
    headers = bearer()
    with django_assert_num_queries(2):
        create(client, {"target_url": TARGET}, headers=headers)
