"""POST /api/links/bulk"""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from shorturl.bulk import MAX_LINKS
from shorturl.links import keys
from shorturl.models import ShortUrl
from shorturl.tests.callers import OTHER, TARGET, bulk, create_link, errors

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def new(key: str, **values: Any) -> dict[str, Any]:
    return {"target_url": TARGET, "key": key, **values}


def test_all_links_are_created_by_one_statement(
    client: Client, django_assert_num_queries: Any
) -> None:
    links = [{"target_url": f"{TARGET}{number}"} for number in range(MAX_LINKS)]
    links[7]["key"] = "mine"
    with django_assert_num_queries(4):  # the banned domains, BEGIN, INSERT and COMMIT
        response = bulk(client, *links)
    assert response.status_code == 201
    created = response.json()["links"]
    assert created[7]["short_url"] == "http://testserver/mine"
    assert [link["target_url"] for link in created] == [link["target_url"] for link in links]
    assert client.get(f"/{created[-1]['key']}")["Location"] == f"{TARGET}{MAX_LINKS - 1}"


@pytest.mark.parametrize(
    ("links", "status", "codes"),
    [
        ([new("theirs")], 409, {"links.1.key": "taken"}),
        ([new("b"), new("b")], 409, {"links.2.key": "duplicate"}),
        # Of each link only the first fault is named.
        (
            [{"target_url": "ftp://a", "key": "/"}, 1, new("b", hits=5)],
            422,
            {
                "links.1.target_url": "scheme",
                "links.2": "model_type",
                "links.3.hits": "extra_forbidden",
            },
        ),
        ([new("b", reuse=True)], 422, {"links.1.reuse": "extra_forbidden"}),
        ([{}] * 20, 422, {f"links.{index}.target_url": "missing" for index in range(1, 21)}),
        ([{"target_url": "http://testserver/a"}], 422, {"links.1.target_url": "own_host"}),
    ],
)
def test_each_bad_link_is_named_and_nothing_created(
    client: Client, links: list[Any], status: int, codes: dict[str, str]
) -> None:
    theirs = create_link("theirs", target_url=OTHER)
    response = bulk(client, new("free"), *links)
    assert (response.status_code, errors(response)) == (status, codes)
    # Of many faults the sentence for people names only some, and `errors` all.
    assert response.json()["detail"].count("links.") <= 10
    assert ShortUrl.objects.get() == theirs


def test_1000_links_of_900_characters_fit_into_a_body(client: Client, settings: Settings) -> None:
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == 1_000_000
    target = "https://example.com/".ljust(900, "a")
    assert bulk(client, *[{"target_url": target}] * MAX_LINKS).status_code == 201


def test_a_drawn_key_that_is_taken_is_drawn_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken by another link, also a deleted one, or by a key of the same request."""
    create_link("gone").delete()
    candidates = iter([["gone", "free"], ["own", "b"]])  # of the first link and of the third
    monkeypatch.setattr(keys, "candidates", lambda: iter(next(candidates)))
    created = bulk(client, {"target_url": TARGET}, new("own"), {"target_url": TARGET})
    assert [link["key"] for link in created.json()["links"]] == ["free", "own", "b"]
    monkeypatch.setattr(keys, "candidates", lambda: iter(["gone", "b"]))
    response = bulk(client, {"target_url": TARGET})
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert ShortUrl.objects.count() == 4  # with the deleted one
