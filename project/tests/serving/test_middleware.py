"""Which responses may be stored and the answer to HEAD."""

from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client, RequestFactory
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


def call_django(method: str, path: str) -> tuple[str, str | None, bytes]:
    """Return the status line, Content-Length and the body, as gunicorn gets them."""
    status, length = "", None

    def start_response(line: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        nonlocal status, length
        status, length = line, dict(headers).get("Content-Length")

    environ = RequestFactory().generic(method, path, headers={"host": "localhost"}).environ
    body = b"".join(WSGIHandler()(environ, start_response))
    return status, length, body


@pytest.mark.parametrize("path", ["/account/login/", "/healthz"])
def test_head_is_get_without_the_body(path: str) -> None:
    """Django's test client would remove the body itself."""
    status, length, body = call_django("GET", path)
    assert body
    assert call_django("HEAD", path) == (status, length, b"")
