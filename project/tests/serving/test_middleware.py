"""Which responses may be stored, the answer to HEAD, and the middleware of API calls."""

from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.utils.module_loading import import_string
from pytest_django import Settings

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/nosuchkey", 404),  # there may be one tomorrow
        ("/static/nothing.css", 404),
        ("/admin", 302),
    ],
)
def test_a_response_that_may_change_is_not_stored(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert (response.status_code, response["Cache-Control"]) == (status, "no-store")


def test_a_static_file_may_be_stored(client: Client, settings: Settings) -> None:
    settings.WHITENOISE_USE_FINDERS = True
    response = client.get("/static/shorturl/shorturl.css")
    response.close()
    assert "max-age" in response["Cache-Control"]


@pytest.mark.parametrize("path", ["/account/login/", "/healthz"])
def test_head_is_get_without_the_body(path: str) -> None:
    """As gunicorn sees it: Django's test client removes the body itself."""
    get, head = ask("GET", path), ask("HEAD", path)
    assert get[2]
    assert head == (get[0], get[1], b"")


def ask(method: str, path: str) -> tuple[str, str | None, bytes]:
    """Return the status line, the length that the header says, and the body."""
    status, length = "", None

    def start_response(line: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        nonlocal status, length
        status, length = line, dict(headers).get("Content-Length")

    environ = RequestFactory().generic(method, path, headers={"host": "localhost"}).environ
    body = b"".join(WSGIHandler()(environ, start_response))
    return status, length, body


def test_only_a_call_with_a_session_passes_the_middleware_of_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    passed: list[str] = []
    last = settings.MIDDLEWARE.index("project.middleware.redirects_and_calls")
    for name in ("csp.middleware.CSPMiddleware", *settings.MIDDLEWARE[last + 1 :]):
        middleware = import_string(name)
        call = middleware.__call__

        def noted(self: Any, request: HttpRequest, call: Any = call) -> Any:
            passed.append(request.path)
            return call(self, request)

        monkeypatch.setattr(middleware, "__call__", noted)
    for path in ("/api/links", "/api/links/known", "/api/links/known/visits", "/api/docs", "/"):
        client.get(path)
    client.cookies[settings.SESSION_COOKIE_NAME] = "0" * 32
    client.get("/api/links/known")
    assert list(dict.fromkeys(passed)) == ["/api/docs", "/", "/api/links/known"]
