"""Whatever is wrong with a call, the answer is JSON of one shape, and says what would be right."""

import json
from typing import Any

import pytest
from django.conf import settings as project_settings
from django.db import connection
from django.test import Client

from shorturl import operations
from shorturl.exceptions import Contended
from shorturl.models import ShortUrl
from shorturl.tests.api import JSON, TARGET, bearer, change, create

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _public(settings: Any) -> None:
    settings.SHORTURL_PUBLIC_CREATE = True
    settings.DEBUG = True  # in which Django answers with pages of its own


def error(response: Any, status: int) -> str:
    """Return the detail of an error answer, which must be one."""
    assert response.status_code == status
    assert response["Content-Type"].startswith(JSON)
    content = response.json()
    assert content.keys() <= {"detail", "errors"}
    assert "Traceback" not in response.content.decode()
    detail: str = content["detail"]
    assert detail.endswith(".")
    return detail


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"target_url": ', "Expecting value at character 16"),
        (b"target_url=x", "Expecting value at character 1"),
        (b'{"target_url": "\xff"}', "it is not UTF-8 at byte 17"),
        ('{"target_url": "x"}'.encode("utf-16"), "it is not UTF-8 at byte 1"),
        (b"\xef\xbb\xbf{}", "Unexpected UTF-8 BOM (decode using utf-8-sig) at character 1"),
        (b"[" * 60_000, "it is nested too deeply"),
        (b'{"a":' * 10_000, "it is nested too deeply"),
        (b'{"target_url": ' + b"9" * 5_000 + b"}", "it holds a number that"),
        (b'{"target_url": NaN}', "it holds a number that"),
        (b'{"target_url": -Infinity}', "it holds a number that"),
        (b'{"target_url": "a\nb"}', "Invalid control character at character 18"),
    ],
)
def test_a_body_that_is_not_json(client: Client, body: bytes, reason: str) -> None:
    headers = bearer()
    for response in (create(client, body), change(client, "known", body, headers=headers)):
        assert error(response, 400).startswith(f"The body is not JSON: {reason}")


def test_a_body_that_names_a_field_twice(client: Client) -> None:
    """Some readers of JSON take the first value, some the last."""
    body = b'{"target_url": "https://example.com/a", "target_url": "https://example.com/b"}'
    detail = "The body has the field 'target_url' more than once."
    for response in (create(client, body), change(client, "known", body, headers=bearer())):
        assert error(response, 400) == detail


@pytest.mark.parametrize("body", [b'{"target_url": 1e999}', b'{"target_url": ' + b"9" * 999 + b"}"])
def test_a_number_of_unheard_of_size(client: Client, body: bytes) -> None:
    assert error(create(client, body), 422) == "target_url: It must be a string."


@pytest.mark.parametrize("size", [0, 1])
def test_a_body_at_and_over_the_limit(client: Client, size: int) -> None:
    body = b"{}".ljust(project_settings.DATA_UPLOAD_MAX_MEMORY_SIZE + size)
    assert "body" in error(create(client, body), 413) if size else error(create(client, body), 422)


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
def test_a_body_of_another_type(client: Client, content_type: str) -> None:
    response = client.post("/api/links", b'{"target_url": "x"}', content_type=content_type)
    assert "Content-Type: application/json" in error(response, 415)


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_by_any_name(client: Client, content_type: str) -> None:
    body = json.dumps({"target_url": TARGET})
    response = client.post("/api/links", body, content_type=content_type)
    assert response.status_code == 201


ALLOW = {
    "/api/links": "GET, HEAD, POST",
    "/api/links/known": "DELETE, GET, HEAD, PATCH",
    "/api/docs": "GET, HEAD",
    "/api/openapi.json": "GET, HEAD",
}


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        (method, path, allow)
        for path, allow in ALLOW.items()
        for method in ("POST", "OPTIONS", "BREW")
        if method not in allow
    ],
)
def test_a_method_that_is_not_for_this(method: str, path: str, allow: str) -> None:
    response = Client(enforce_csrf_checks=True).generic(method, path)
    assert error(response, 405) == f"{method} is not allowed for {path!r}: use {allow}."
    assert response["Allow"] == allow


@pytest.mark.parametrize("method", ["GET", "BREW"])
@pytest.mark.parametrize("path", ["/api/", "/api/links/", "/api/links/a/b", "/api/%00"])
def test_a_path_under_which_there_is_nothing(path: str, method: str) -> None:
    response = Client(enforce_csrf_checks=True).generic(method, path)
    assert "see /api/docs" in error(response, 404)


@pytest.mark.parametrize("debug", [False, True])
def test_a_mistake_of_ours(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any, debug: bool
) -> None:
    settings.DEBUG = debug

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(operations, "create", fail)
    client.raise_request_exception = False
    detail = error(create(client, {"target_url": TARGET}), 500)
    assert detail == "An internal error occurred; it has been logged."


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "path"),
    [("shorturl_shorturl", "/api/links/known"), ("shorturl_apitoken", "/api/links")],
)
def test_the_database_does_not_answer_in_time(client: Client, table: str, path: str) -> None:
    """Somebody else has locked the table, be it that of the links or that of the tokens."""
    headers = bearer()
    somebody = connection.copy()
    try:
        with somebody.cursor() as cursor, connection.cursor() as mine:
            cursor.execute(f"BEGIN; LOCK TABLE {table}")
            mine.execute("SET lock_timeout = '10ms'")
            response = client.get(path, headers=headers)
    finally:
        somebody.close()
        connection.close()
    assert "database" in error(response, 503)
    assert response["Retry-After"].isdecimal()


@pytest.mark.django_db(transaction=True)
def test_the_connection_to_the_database_is_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_it(*args: Any, **kwargs: Any) -> ShortUrl:
        connection.ensure_connection()
        connection.connection.close()
        return ShortUrl.objects.get()

    monkeypatch.setattr(operations, "create", lose_it)
    response = create(client, {"target_url": TARGET})
    connection.close()
    assert "database" in error(response, 503)
    assert response["Retry-After"].isdecimal()


def test_too_many_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise Contended("known", 7)

    monkeypatch.setattr(operations, "create", fail)
    response = create(client, {"target_url": TARGET})
    assert "after 7 attempts" in error(response, 503)
    assert response["Retry-After"] == "5"
