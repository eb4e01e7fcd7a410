"""The status and every header of the answers to /<key>."""

from typing import Any
from unittest.mock import ANY

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from shorturl import following, operations
from shorturl.exceptions import RowLocked
from shorturl.models import CLOCK, ShortUrl, Visit

pytestmark = pytest.mark.django_db

TARGET_URL = "https://example.com/"
# The policy's directives have no order.
POLICY = {f"{name} {of}" for name, (of,) in settings.CONTENT_SECURITY_POLICY["DIRECTIVES"].items()}
MIDDLEWARE = {
    "Content-Type": "text/html; charset=utf-8",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
REFUSED = {**MIDDLEWARE, "Cache-Control": "no-store", "Content-Security-Policy": POLICY}
PAGE = {**REFUSED, "X-Frame-Options": "DENY", "Content-Length": ANY}
EMPTY = {**PAGE, "Content-Length": "0"}
REDIRECT = {
    "Location": TARGET_URL,
    "Cache-Control": "private, no-store",
    "Content-Length": "0",
    "Referrer-Policy": "same-origin",
}
GONE = {**PAGE, "Cache-Control": "private, no-store", "Vary": "Accept"}
NOT_ALLOWED = {**EMPTY, "Allow": "GET, HEAD"}


def answer(method: str, path: str, body: bytes = b"", **options: Any) -> tuple[int, Any]:
    """Return the status and the headers that Django answers."""
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    response = client.generic(method, path, body, **options)
    found: tuple[int, dict[str, Any]] = response.status_code, dict(response.headers)
    if method == "GET" and "Content-Length" in found[1]:
        assert int(found[1]["Content-Length"]) == len(response.content)
    assert not response.cookies
    if policy := found[1].get("Content-Security-Policy"):
        found[1]["Content-Security-Policy"] = set(policy.split("; "))
    return found


@pytest.fixture(autouse=True)
def links() -> None:
    operations.create(TARGET_URL, key="spring")
    operations.create(TARGET_URL, key="gone").delete()
    ShortUrl.objects.create(key="used", target_url=TARGET_URL, hits=1, max_hits=1)
    ShortUrl.objects.create(key="over", target_url=TARGET_URL, expires_at=CLOCK)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_get_and_head(method: str) -> None:
    assert answer(method, "/spring") == (302, REDIRECT)
    assert answer(method, "/used") == (410, GONE)
    assert answer(method, "/over") == (410, GONE)
    assert answer(method, "/gone") == (404, PAGE)
    assert answer(method, "/unknown") == (404, PAGE)
    assert answer(method, "/Admin") == (404, PAGE)  # no key, although it has the form of one


@pytest.mark.parametrize("path", ["/spring", "/gone", "/unknown"])
def test_another_method(path: str) -> None:
    for method in ("POST", "PUT", "OPTIONS"):
        assert answer(method, path) == (405, NOT_ALLOWED)
    assert ShortUrl.objects.get(key="spring").hits == 0


def test_requests_refused_before_the_key_is_looked_up() -> None:
    assert answer("GET", "/spring", headers={"host": "example.net"}) == (400, REFUSED)
    assert answer("GET", "/spring", headers={"host": f"testserver:{'1' * 5000}"}) == (400, REFUSED)


def test_with_https(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT, settings.SECURE_HSTS_SECONDS = True, 60
    to_https = {"Location": "https://testserver/spring?x=1", "Referrer-Policy": "same-origin"}
    assert answer("GET", "/spring?x=1") == (301, to_https)
    hsts = {"Strict-Transport-Security": "max-age=60"}
    assert answer("GET", "/spring", secure=True) == (302, {**REDIRECT, **hsts})
    assert answer("GET", "/unknown", secure=True) == (404, {**PAGE, **hsts})
    assert answer("POST", "/spring", secure=True) == (405, {**NOT_ALLOWED, **hsts})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationalError(), (503, {**PAGE, "Retry-After": "5"})),
        (RowLocked("spring"), (503, {**PAGE, "Retry-After": "1"})),
        (ZeroDivisionError(), (500, PAGE)),
    ],
)
def test_an_error_of_the_operation(
    error: Exception, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: str, visit: Visit) -> None:
        raise error

    monkeypatch.setattr(following, "follow", fail)
    assert answer("GET", "/spring") == expected
