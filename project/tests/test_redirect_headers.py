"""All of what GET /<key> answers in each of its cases: the status and every header."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import ANY

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import OperationalError, close_old_connections
from django.http import HttpResponseRedirect
from django.test import Client, RequestFactory

from project.redirects import Redirects, key_asked_for, location_of
from project.together import TOGETHER
from shorturl import operations, views
from shorturl.exceptions import RowLocked
from shorturl.models import CLOCK, ShortUrl, VisitCount
from shorturl.validators import ascii_url
from shorturl.visits import Visit

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
REDIRECT = {**EMPTY, "Location": TARGET_URL, "Cache-Control": "private, no-store"}
GONE = {**PAGE, "Cache-Control": "private, no-store", "Vary": "Accept"}
NOT_ALLOWED = {**EMPTY, "Allow": "GET, HEAD"}


def answer(method: str, path: str, body: bytes = b"", **options: Any) -> tuple[int, Any]:
    """Return the status and the headers, which are the same by every way.

    The first redirect of a process goes through Django, as all do by the test client, and the next
    ones in front of it.
    """
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    response = client.generic(method, path, body, **options)
    found: tuple[int, dict[str, Any]] = response.status_code, dict(response.headers)
    if method == "GET" and "Content-Length" in found[1]:
        assert int(found[1]["Content-Length"]) == len(response.content)
    assert not response.cookies
    options["headers"] = {"host": "testserver", **options.get("headers", {})}
    served = Redirects(WSGIHandler())
    ways = [served_by(served, method, path, body, **options) for _ in range(2)]
    assert ways == [found, found]
    if policy := found[1].get("Content-Security-Policy"):
        found[1]["Content-Security-Policy"] = set(policy.split("; "))
    return found


@contextmanager
def kept_connection() -> Iterator[None]:
    """Let no request close the connection, which is in the test's transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)


def served_by(
    application: Redirects, method: str, path: str, body: bytes = b"", **options: Any
) -> tuple[int, dict[str, str]]:
    """Return the status and the headers that the WSGI application answers."""
    return called(application, RequestFactory().generic(method, path, body, **options).environ)


def served_together(application: Redirects, *paths: str, **options: Any) -> list[int]:
    """Return the statuses of requests that a thread answers together."""
    environs = [RequestFactory().get(path, **options).environ for path in paths]
    for environ in environs:
        environ[TOGETHER] = environs
    return [called(application, environ)[0] for environ in environs]


def called(application: Redirects, environ: dict[str, Any]) -> tuple[int, dict[str, str]]:
    """Return the status and the headers that the WSGI application answers."""
    answered: list[tuple[int, dict[str, str]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> None:
        assert len(dict(headers)) == len(headers)
        answered.append((int(status[:3]), dict(headers)))

    with kept_connection():
        list(application(environ, start_response))
    assert len(answered) == 1
    return answered[0]


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


def test_what_is_refused_before_the_key_is_looked_at(settings: Any) -> None:
    assert answer("GET", "/spring", headers={"host": "example.net"}) == (400, REFUSED)
    too_long = b"x" * (settings.SHORTURL_BODY_MAX + 1)
    assert answer("GET", "/spring", too_long) == (413, REFUSED)


def test_with_https(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT, settings.SECURE_HSTS_SECONDS = True, 60
    to_https = {**MIDDLEWARE, "Location": "https://testserver/spring?x=1"}
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

    monkeypatch.setattr(operations, "follow", fail)
    assert answer("GET", "/spring") == expected


def test_each_request_follows_the_short_url_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Django has to answer: it gets what was found."""
    followed, follow = list[str](), operations.follow

    def noted(key: str, visit: Visit) -> ShortUrl:
        followed.append(key)
        return follow(key, visit)

    monkeypatch.setattr(operations, "follow", noted)
    application = Redirects(WSGIHandler())
    host: dict[str, Any] = {"headers": {"host": "testserver"}}
    paths = ["/spring", "/spring", "/unknown", "/gone", "/spring"]
    answers = [served_by(application, "GET", path, **host)[0] for path in paths]
    assert answers == [302, 302, 404, 404, 302]
    assert [f"/{key}" for key in followed] == paths


@pytest.mark.parametrize("visits", ["combined", ""])
def test_requests_that_are_answered_together_are_counted_as_one(
    visits: str, settings: Any, django_assert_num_queries: Any
) -> None:
    """But for what goes another way, and what is not for the same short URL."""
    settings.SHORTURL_VISITS = visits
    application = Redirects(WSGIHandler())
    host = {"headers": {"host": "testserver"}}
    with django_assert_num_queries(1):
        assert served_together(application, *["/spring"] * 3, **host) == [302] * 3
    assert served_together(application, "/spring", "/unknown", "/spring", **host) == [302, 404, 302]
    assert ShortUrl.objects.get(key="spring").hits == 5
    assert VisitCount.objects.filter(hits=5).exists() == bool(visits)
    assert served_together(application, *["/spring"] * 2, headers={"host": "else"}) == [400] * 2
    ShortUrl.objects.filter(key="spring").update(max_hits=7)
    assert served_together(application, *["/spring"] * 4, **host) == [302, 302, 410, 410]
    with django_assert_num_queries(3):  # for all of them, for one, and why there is none
        assert served_together(application, *["/unknown"] * 5, **host) == [404] * 5


@pytest.mark.parametrize(
    ("error", "status"), [(OperationalError(), 503), (RowLocked("spring"), 503)]
)
def test_an_error_is_for_all_that_are_answered_together(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: str, visits: list[Visit]) -> None:
        raise error

    monkeypatch.setattr(operations, "follow_together", fail)
    host = {"headers": {"host": "testserver"}}
    assert served_together(Redirects(WSGIHandler()), *["/spring"] * 3, **host) == [503] * 3


def test_which_requests_are_answered_together(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in (b"GET /spring HTTP/1.1\r\n", b"GET /spring?utm_source=a HTTP/1.1\r\n"):
        assert key_asked_for(bytearray(asked)) == "spring"
    for other in (b"HEAD /spring ", b"GET /links ", b"GET /spring/stats ", b"GET / ", b"GET /%61 "):
        assert key_asked_for(bytearray(other)) is None
    spring = bytearray(b"GET /spring HTTP/1.1\r\n")
    monkeypatch.setattr(views.gate, "is_locked", "spring".__eq__)
    assert key_asked_for(spring) is None
    monkeypatch.setattr(views.gate, "is_locked", "summer".__eq__)
    assert key_asked_for(spring) == "spring"
    settings.SHORTURL_VISITS = "upsert"
    assert key_asked_for(spring) is None


@pytest.mark.parametrize(
    ("said", "secure"), [("https", True), ("https, http", True), ("http", False), (None, False)]
)
def test_the_scheme_is_what_the_proxy_says(settings: Any, said: str | None, secure: bool) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_HSTS_SECONDS = 60
    headers = {"X-Forwarded-Proto": said} if said else {}
    assert ("Strict-Transport-Security" in answer("GET", "/spring", headers=headers)[1]) == secure


def test_each_scheme_has_headers_of_its_own(settings: Any) -> None:
    settings.SECURE_HSTS_SECONDS = 60
    application = Redirects(WSGIHandler())
    host: dict[str, Any] = {"headers": {"host": "testserver"}}
    for secure in (True, False, True, False):
        _, headers = served_by(application, "GET", "/spring", secure=secure, **host)
        assert ("Strict-Transport-Security" in headers) == secure


@pytest.mark.parametrize(
    ("target_url", "status"),
    [
        ("https://例え.jp/パス?q=ü#é", 302),
        ("https://example.com/a b\n", 302),
        ("javascript:alert(1)", 400),
        ("https://[x", 400),
    ],
)
def test_the_location(target_url: str, status: int) -> None:
    """Also of links that no form or API would have taken, be it the first redirect or a later one.

    `answer()` compares the first of a process only.
    """
    application = Redirects(WSGIHandler())
    host: dict[str, Any] = {"headers": {"host": "testserver"}}
    assert served_by(application, "GET", "/spring", **host)[0] == 302
    ShortUrl.objects.filter(key="spring").update(target_url=target_url)
    assert served_by(application, "GET", "/spring", **host)[0] == status
    assert answer("GET", "/spring")[0] == status


@pytest.mark.parametrize("host", ["example.com", "EXAMPLE.com:80", "[::1]", "bücher.example"])
@pytest.mark.parametrize("rest", ["", "/a-b_c.~d/%20?e=%C3%A4&f=g+h#i", "/ä", "?{a}", "/[b]#|^`"])
def test_the_location_is_as_django_encodes_it(host: str, rest: str) -> None:
    target_url = f"https://{host}{rest}"
    expected = HttpResponseRedirect(ascii_url(target_url)).headers["Location"]
    assert location_of(ShortUrl(target_url=target_url)) == expected
