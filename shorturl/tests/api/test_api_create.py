"""POST /api/links"""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils.dateparse import parse_datetime

from shorturl.models import ShortUrl
from shorturl.tests.callers import JSON, OTHER, TARGET, bulk, change, create, fields

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def test_creates_a_short_url(
    client: Client, headers: dict[str, str], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(2):  # with that for banned domains
        response = create(client, {"target_url": TARGET, "key": None})
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
        "max_hits": None,
        "expires_at": None,
        "title": "",
        "tags": [],
        "forward_query": False,
        "state": "live",
    }
    assert client.get(f"/{stored.key}")["Location"] == TARGET
    assert client.get(response["Location"]).json()["hits"] == 1
    with django_assert_num_queries(3):
        create(client, {"target_url": TARGET}, headers=headers)


def test_a_title_tags_and_a_target_without_its_scheme(client: Client) -> None:
    body = {"target_url": "example.com:8080/a?b", "title": "A\tb ", "tags": ["News", "b", "news"]}
    link = create(client, body).json()
    assert link["target_url"] == "https://example.com:8080/a?b"
    assert (link["title"], link["tags"]) == ("A b", ["news", "b"])
    (link,) = bulk(client, {**body, "title": "Spring"}).json()["links"]
    assert (link["title"], link["tags"]) == ("Spring", ["news", "b"])


def test_the_query_is_forwarded_where_a_link_says_so(client: Client) -> None:
    client.force_login(User.objects.create_user("ann"))
    forwards = {"target_url": TARGET, "key": "a", "forward_query": True}
    bulk(client, forwards, {"target_url": TARGET, "key": "b"})
    assert [client.get(f"/{key}?c")["Location"] for key in "ab"] == [f"{TARGET}?c", TARGET]
    assert change(client, "a", {"forward_query": False}).json()["forward_query"] is False
    assert client.get("/a?c")["Location"] == TARGET


def test_a_custom_key_and_the_next_request_for_it(client: Client) -> None:
    response = create(client, {"target_url": TARGET, "key": "My_page-1"})
    assert (response.status_code, response.json()["key"]) == (201, "My_page-1")
    response = create(client, {"target_url": OTHER, "key": "My_page-1"})
    assert (response.status_code, fields(response)) == (409, {"key": "taken"})
    assert response.json()["detail"] == (
        "key: The key 'My_page-1' is taken. Choose another key, or none."
    )
    assert ShortUrl.objects.get().target_url == TARGET
    ShortUrl.objects.get().delete()
    again = {"target_url": OTHER, "key": "My_page-1"}
    for path, body in [("/api/links", again), ("/api/links/bulk", {"links": [again]})]:
        response = client.post(path, body, JSON)
        assert response.status_code == 409
        assert "is taken: it was deleted, and a deleted key" in response.json()["detail"]


@pytest.mark.parametrize(
    ("body", "codes", "says"),
    [
        ({"key": ""}, {"key": "malformed"}, "is not a valid key"),
        ({"key": "\ud800"}, {"key": "malformed"}, "is not a valid key"),
        ({"key": 7}, {"key": "string_type"}, "key: It must be a string."),
        ({"target_url": None}, {"target_url": "string_type"}, "target_url: It must be a string."),
        ({"target_url": "https://{a} b"}, {"target_url": "forbidden_character"}, "percent-encode"),
        ({"target_url": "https://a/\ud800"}, {"target_url": "forbidden_character"}, "leave it out"),
        (
            {"target_url": "javascript:alert(1)", "key": "api", "hits": 5},
            {"target_url": "scheme", "key": "reserved", "hits": "extra_forbidden"},
            "start it with http:// or https://",
        ),
        ({"title": "a\x07"}, {"title": "forbidden_character"}, "U+0007 at position 2: leave it"),
        ({"tags": ["a|b"]}, {"tags": "forbidden_character"}, "contains '|', which separates"),
        ({"tags": "a"}, {"tags": "list_type"}, "valid list"),
        ({"forward_query": "often"}, {"forward_query": "bool_parsing"}, "valid boolean"),
        (
            {f"{number}" + "x" * 500: 1 for number in range(100)},  # the answer repeats little
            {f"{number}" + "x" * 58 + "…": "extra_forbidden" for number in range(10)},
            "leave it out.",
        ),
        ({"max_hits": 0}, {"max_hits": "greater_than_equal"}, "greater than or equal to 1"),
        ({"max_hits": 2**63}, {"max_hits": "less_than_equal"}, "less than or equal to"),
        ({"max_hits": "many"}, {"max_hits": "int_parsing"}, "valid integer"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, {"expires_at": "past"}, "use a later time"),
        ({"expires_at": "2099-01-01T00:00:00"}, {"expires_at": "timezone_aware"}, "timezone"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, {"expires_at": "year"}, "years 1 to 9999"),
        ("[]", {"body": "model_type"}, "body: It must be a JSON object."),
        ("null", {"body": "model_type"}, "body: It must be a JSON object."),
        (b"", {"body": "missing"}, "body: It is required."),
    ],
)
def test_invalid_requests(client: Client, body: Any, codes: dict[str, str], says: str) -> None:
    response = create(client, {"target_url": TARGET, **body} if isinstance(body, dict) else body)
    assert (response.status_code, fields(response)) == (422, codes)
    detail = response.json()["detail"]
    assert says in detail
    assert detail.endswith(".")
    assert not detail.endswith("..")
    assert not ShortUrl.objects.exists()
