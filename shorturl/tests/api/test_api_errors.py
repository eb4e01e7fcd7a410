"""Every error of the API is JSON of one form, as /api/openapi.json says."""

import json
from typing import Any

import pytest
from django.test import Client

from shorturl import operations
from shorturl.exceptions import Contended, KeySpaceExhausted
from shorturl.models import ShortUrl
from shorturl.tests.callers import JSON, OTHER, TARGET, bearer, create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def error(response: Any, status: int) -> str:
    assert response.status_code == status
    assert response["Content-Type"].startswith(JSON)
    content = response.json()
    assert content.keys() <= {"detail", "errors"}
    detail: str = content["detail"]
    assert detail.endswith(".")
    return detail


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # Some JSON parsers take the first value, some the last.
        (b'{"key": "a", "key": "b"}', "has the field 'key' more than once"),
        (b'{"target_url": ', "is not JSON: Expecting value: line 1 column 16"),
        ('{"target_url": "x"}'.encode("utf-16"), "is not JSON: 'utf-8' codec can't decode byte"),
        (b"[" * 60_000, "is not JSON: maximum recursion depth exceeded"),
        (b'{"target_url": ' + b"9" * 5_000 + b"}", "is not JSON: Exceeds the limit"),
        (b'{"target_url": NaN}', "is not JSON: NaN is not a number"),
    ],
)
def test_a_body_that_is_not_json(client: Client, body: bytes, reason: str) -> None:
    assert error(create(client, body), 400).startswith(f"The body {reason}")


def test_a_body_of_another_type(client: Client) -> None:
    body = json.dumps({"target_url": TARGET}).encode("utf-8-sig")  # a BOM is no part of it
    for content_type in ("Application/JSON", "application/json; charset=utf-8"):
        assert client.post("/api/links", body, content_type=content_type).status_code == 201
    for content_type in ("", "text/plain", "application/x-www-form-urlencoded"):
        response = client.post("/api/links", body, content_type=content_type)
        assert "Content-Type: application/json" in error(response, 415)


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/api", "GET, HEAD"),
        ("/api/links", "GET, HEAD, POST"),
        ("/api/links/known", "DELETE, GET, HEAD, PATCH"),
        ("/api/docs", "GET, HEAD"),
        ("/api/openapi.json", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_allowed(path: str, allow: str) -> None:
    response = Client(enforce_csrf_checks=True).generic("BREW", path)
    assert error(response, 405) == f"BREW is not allowed for {path!r}: use {allow}."
    assert response["Allow"] == allow


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("key", ["KNOWN", "gone", "known%0A", "%00", "a" * 5_000])
def test_a_key_without_a_live_link(client: Client, method: str, key: str) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET).delete()
    known = ShortUrl.objects.create(key="known", target_url=TARGET)
    body = json.dumps({"target_url": OTHER})
    response = client.generic(method, f"/api/links/{key}", body, JSON, headers=bearer())
    assert error(response, 404).startswith("There is no short URL '")
    assert len(response.content) < 500
    assert ShortUrl.objects.get(deleted_at=None, target_url=TARGET) == known


@pytest.mark.parametrize("path", ["/api/", "/api/links/", "/api/%00"])
def test_an_unknown_path(path: str) -> None:
    response = Client(enforce_csrf_checks=True).generic("BREW", path)
    assert "see /api/docs" in error(response, 404)


@pytest.mark.parametrize(
    ("raised", "status", "says"),
    [
        (RuntimeError("secret"), 500, "An internal error occurred; it has been logged."),
        (Contended("known", 7), 503, "after 7 attempts"),
        (KeySpaceExhausted(iter(())), 503, "Every candidate key was taken. Choose a custom key"),
    ],
)
def test_an_exception_of_create(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    status: int,
    says: str,
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise raised

    monkeypatch.setattr(operations, "create", fail)
    client.raise_request_exception = False
    response = create(client, {"target_url": TARGET})
    detail = error(response, status)
    assert says in detail
    assert "secret" not in detail
    assert response.get("Retry-After") == ("5" if status == 503 else None)


def test_the_operations_keep_their_names_and_security(
    client: Client, django_assert_num_queries: Any
) -> None:
    """Clients are generated from them."""
    with django_assert_num_queries(0):
        description = client.get("/api/openapi.json").json()
    own: list[Any] = [{"Token": []}, {"Login": []}]
    assert {
        (method, path): (operation["operationId"], operation["security"])
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    } == {
        ("post", "/api/links"): ("create_link", [{"Token": []}, {"Login": []}, {}]),
        ("post", "/api/links/bulk"): ("create_links", [{"Token": []}, {"Login": []}, {}]),
        ("get", "/api/links"): ("list_links", own),
        ("get", "/api/links/{key}"): ("get_link", [{"Token": []}, {"Login": []}, {}]),
        ("get", "/api/links/{key}/visits"): ("list_visits", [*own, {}]),
        ("patch", "/api/links/{key}"): ("change_link", own),
        ("delete", "/api/links/{key}"): ("delete_link", own),
    }
