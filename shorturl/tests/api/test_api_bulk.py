"""POST /api/links/bulk"""

import json
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from shorturl.bulk import MAX_LINKS
from shorturl.links import keys
from shorturl.models import ShortUrl
from shorturl.tests.callers import JSON, OTHER, TARGET, bulk, fields

PATH = "/api/links/bulk"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def test_creates_all_of_them(client: Client, django_assert_num_queries: Any) -> None:
    links = [{"target_url": f"{TARGET}{number}"} for number in range(MAX_LINKS)]
    links[7]["key"] = "mine"
    with django_assert_num_queries(4):  # with BEGIN and COMMIT, which here are a savepoint's
        response = bulk(client, *links)
    assert response.status_code == 201
    created = response.json()["links"]
    assert created[7]["short_url"] == "http://testserver/mine"
    assert [link["target_url"] for link in created] == [link["target_url"] for link in links]
    assert client.get(f"/{created[-1]['key']}")["Location"] == f"{TARGET}{MAX_LINKS - 1}"


@pytest.mark.parametrize(
    ("links", "status", "codes"),
    [
        ([{"target_url": TARGET, "key": "theirs"}], 409, {"links.1.key": "taken"}),
        (
            [{"target_url": TARGET, "key": "b"}, {"target_url": TARGET, "key": "b"}],
            409,
            {"links.2.key": "duplicate"},
        ),
        (
            [{"target_url": "ftp://a", "key": "/"}, 1, {"target_url": TARGET, "hits": 5}],
            422,
            {
                "links.1.target_url": "scheme",  # the first fault of the link
                "links.2": "model_type",
                "links.3.hits": "extra_forbidden",
            },
        ),
        ([{"target_url": TARGET, "reuse": True}], 422, {"links.1.reuse": "extra_forbidden"}),
        ([{}] * 20, 422, {f"links.{index}.target_url": "missing" for index in range(1, 21)}),
        ([{"target_url": "http://testserver/a"}], 422, {"links.1.target_url": "own_host"}),
    ],
)
def test_each_bad_link_is_named_and_nothing_created(
    client: Client, links: list[Any], status: int, codes: dict[str, str]
) -> None:
    theirs = ShortUrl.objects.create(key="theirs", target_url=OTHER)
    response = bulk(client, {"target_url": TARGET, "key": "free"}, *links)
    assert (response.status_code, fields(response)) == (status, codes)
    assert response.json()["detail"].count("links.") <= 11
    assert ShortUrl.objects.get() == theirs


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ('{"links": []}', 422, "links: List should have at least 1 item"),
        (json.dumps({"links": [1] * (MAX_LINKS + 1)}), 422, "at most 1000 items"),
        ('{"links": [1], "atomic": true}', 422, "atomic: The field is not known"),
        ("[]", 422, "body: It must be a JSON object."),
        ('{"links": [', 400, "The body is not JSON: Expecting value: line 1 column 12"),
    ],
)
def test_a_body_that_is_rejected_as_a_whole(
    client: Client, body: str, status: int, says: str
) -> None:
    response = client.post(PATH, body, content_type=JSON)
    assert response.status_code == status
    assert says in response.json()["detail"]


def test_a_drawn_key_that_is_taken_is_drawn_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken by another link, also a deleted one, or by a key of the same request."""
    ShortUrl.objects.create(key="gone", target_url=OTHER).delete()
    draws = iter([["gone", "free"], ["own", "b"]])  # of the first link and of the third
    monkeypatch.setattr(keys, "candidates", lambda: iter(next(draws)))
    links = [{"target_url": TARGET}, {"target_url": TARGET, "key": "own"}, {"target_url": TARGET}]
    created = bulk(client, *links).json()["links"]
    assert [link["key"] for link in created] == ["free", "own", "b"]
    assert ShortUrl.objects.count() == 4  # with the deleted one


def test_a_link_whose_drawn_keys_are_all_taken_is_a_503(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ShortUrl.objects.create(key="gone", target_url=OTHER).delete()
    theirs = ShortUrl.objects.create(key="b", target_url=OTHER)
    monkeypatch.setattr(keys, "candidates", lambda: iter(["gone", "b"]))
    response = bulk(client, {"target_url": TARGET})
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert set(ShortUrl.objects.values_list("key", flat=True)) == {"gone", theirs.key}


def test_keys_are_inserted_in_one_order(client: Client) -> None:
    """The ids show the order. In one order, two requests for the same keys do not deadlock."""
    wanted = ["b", "_", "a", "B", "-", "1", "A"]
    bulk(client, *({"target_url": TARGET, "key": key} for key in wanted))
    assert list(ShortUrl.objects.order_by("id").values_list("key", flat=True)) == sorted(wanted)


def test_the_longest_body(client: Client, settings: Settings) -> None:
    target = "https://example.com/".ljust(900, "a")
    assert bulk(client, *[{"target_url": target}] * MAX_LINKS).status_code == 201
    too_long = "a" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
    response = client.post(PATH, too_long, content_type=JSON)
    assert response.status_code == 413
    assert response.json()["detail"] == "The body is too large: send at most 1,000,000 bytes."
