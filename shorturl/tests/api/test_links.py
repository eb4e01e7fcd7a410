"""The API's calls of links: create, list, get, change and delete."""

from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.tests.callers import OTHER, TARGET, bulk, change, create, create_link, errors, user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def test_a_new_link_is_answered_with_all_its_fields(
    client: Client, api: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):  # which asks for banned domains, too
        response = create(client, {"target_url": TARGET, "key": None})
    link = response.json()
    key = ShortUrl.objects.get().key
    assert response.status_code == 201
    assert response["Location"] == f"http://testserver/api/links/{key}"
    assert parse_datetime(link.pop("created_at"))
    assert link == {
        "key": key,
        "short_url": f"http://testserver/{key}",
        "target_url": TARGET,
        "hits": 0,
        "max_hits": None,
        "expires_at": None,
        "title": "",
        "tags": [],
        "forward_query": False,
        "state": "live",
    }
    assert client.get(f"/{key}")["Location"] == TARGET
    assert client.get(response["Location"]).json()["hits"] == 1
    with django_assert_num_queries(2):  # the token, too
        create(api)


def test_null_in_a_create_is_as_if_the_field_were_absent(client: Client, api: Client) -> None:
    names = ("key", "max_hits", "expires_at", "title", "tags", "forward_query")
    body = {"target_url": TARGET, **dict.fromkeys(names)}
    created = [create(client, body | {"reuse": None}).json(), bulk(client, body).json()["links"][0]]
    for link in created:
        assert (link["title"], link["tags"], link["forward_query"]) == ("", [], False)
    assert errors(create(client, {"hits": None})) == {
        "target_url": "missing",
        "hits": "extra_forbidden",
    }
    create_link(title="Old")
    assert errors(change(api, "known", {"title": None})) == {"title": "string_type"}  # "" removes


def test_title_and_tags_are_tidied_and_a_target_without_scheme_gets_one(client: Client) -> None:
    body = {
        "target_url": "example.com:8080/a?b",
        "title": "A\tb ",
        "tags": ["News", "b", "news"],
        "max_hits": 2**63 - 1,  # the largest number
    }
    for link in (create(client, body).json(), bulk(client, body).json()["links"][0]):
        assert link["target_url"] == "https://example.com:8080/a?b"
        assert (link["title"], link["tags"]) == ("A b", ["news", "b"])
        assert link["max_hits"] == body["max_hits"]


def test_the_query_is_forwarded_where_a_link_says_so(client: Client, api: Client) -> None:
    forwards = {"target_url": TARGET, "key": "a", "forward_query": True}
    bulk(api, forwards, {"target_url": TARGET, "key": "b"})
    assert [client.get(f"/{key}?c")["Location"] for key in "ab"] == [f"{TARGET}?c", TARGET]
    assert change(api, "a", {"forward_query": False}).json()["forward_query"] is False
    assert client.get("/a?c")["Location"] == TARGET


def test_a_taken_key_is_a_conflict_also_after_it_was_deleted(client: Client) -> None:
    wanted = {"target_url": OTHER, "key": "My_page-1"}
    response = create(client, {**wanted, "target_url": TARGET})
    assert (response.status_code, response.json()["key"]) == (201, "My_page-1")
    response = create(client, wanted)
    assert (response.status_code, errors(response)) == (409, {"key": "taken"})
    detail = "key: The key 'My_page-1' is taken. Choose another key, or none."
    assert response.json()["detail"] == detail
    assert ShortUrl.objects.get().target_url == TARGET
    ShortUrl.objects.get().delete()
    for response in (create(client, wanted), bulk(client, wanted)):
        assert response.status_code == 409
        assert "is taken: it was deleted, and a deleted key" in response.json()["detail"]


def listed_keys(response: Any) -> list[str]:
    return [link["key"] for link in response.json()["items"]]


def test_the_list_is_newest_first_and_does_not_shift_between_pages(api: Client) -> None:
    for number in range(5):
        create_link(f"key{number}")
    ShortUrl.objects.get(key="key2").delete()
    first = api.get("/api/links?limit=2")
    assert listed_keys(first) == ["key4", "key3"]
    create_link("new")
    ShortUrl.objects.get(key="key3").delete()
    assert first.json()["next"] == "key3"
    second = api.get("/api/links?limit=2&after=key3")
    assert listed_keys(second) == ["key1", "key0"]
    assert second.json()["next"] is None  # though the page is just full


def test_a_page_holds_fifty_by_default(api: Client, django_assert_num_queries: Any) -> None:
    for number in range(51):
        create_link(f"key{number}")
    with django_assert_num_queries(2):  # the token and the page
        assert len(listed_keys(api.get("/api/links"))) == 50


def test_filters_hold_on_each_page(api: Client) -> None:
    create_link()
    create_link("tagged", title="Catalogue", tags=["spring", "news"])
    create_link("late", tags=["spring"], expires_at=timezone.now())
    page = api.get("/api/links?limit=1&tags=Spring")
    assert listed_keys(page) == ["late"]
    after = page.json()["next"]
    assert listed_keys(api.get(f"/api/links?limit=1&tags=Spring&after={after}")) == ["tagged"]
    assert listed_keys(api.get("/api/links?q=CATA&state=live&tags=spring,news")) == ["tagged"]
    assert listed_keys(api.get("/api/links?q=&tags=&state=expired")) == ["late"]
    assert listed_keys(api.get("/api/links?q=_")) == []  # no wildcard


def test_an_index_finds_the_tags() -> None:
    """The index is partial, and the query does not repeat its condition."""
    create_link()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    links = ShortUrl.objects.matching({"q": "", "tags": ["spring"], "state": ""}, host="a.b")
    assert "shorturl_shorturl_tags_ix" in links.explain()


def test_reading_one_link_counts_no_hit_and_is_not_cached(
    client: Client, django_assert_num_queries: Any
) -> None:
    create_link(hits=2**62)  # more than an integer column holds
    client.force_login(user())
    assert client.head("/api/links/known").status_code == 200
    with django_assert_num_queries(1):  # even with a login
        response = client.get("/api/links/known")
    assert response["Cache-Control"] == "no-store"
    link = response.json()
    assert (link["key"], link["hits"], link["target_url"]) == ("known", 2**62, TARGET)


def test_a_deleted_key_is_404_and_never_drawn_again(
    client: Client, api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_link(hits=3)
    response = api.delete("/api/links/known")
    assert (response.status_code, response.content) == (204, b"")
    assert api.delete("/api/links/known").status_code == 404
    assert change(api, "known", {"target_url": OTHER}).status_code == 404
    for path in ("/known", "/api/links/known"):
        assert client.get(path).status_code == client.head(path).status_code == 404
    drawn = iter(["known", "free"])
    monkeypatch.setattr("shorturl.links.keys.draw", lambda length: next(drawn))
    assert create(api).json()["key"] == "free"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("other_call", "statuses"),  # of the deletion and of the other call
    [
        ("create", {(204, 409)}),
        ("delete", {(204, 404), (404, 204)}),
        ("change", {(204, 404), (204, 200)}),  # also a 404 if the link is changed and then deleted
    ],
)
def test_a_deletion_is_final(
    api: Client, interleave: Interleave, other_call: str, statuses: set[tuple[int, int]]
) -> None:
    """Process 1 deletes the link. Process 2 does not get its key, deletes it or changes it."""
    create_link()

    def call(name: str) -> int:
        if name == "delete":
            return api.delete("/api/links/known").status_code
        if name == "create":
            return int(create(api, {"target_url": OTHER, "key": "known"}).status_code)
        return int(change(api, "known", {"target_url": OTHER}).status_code)

    def is_deleted(outcomes: list[Outcome]) -> None:
        assert tuple(outcome.returned for outcome in outcomes) in statuses
        link = ShortUrl.objects.get()
        assert link.deleted_at
        assert link.target_url == TARGET or other_call == "change"

    interleave(partial(call, "delete"), partial(call, other_call), invariant=is_deleted)
