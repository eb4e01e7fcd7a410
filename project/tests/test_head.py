"""HEAD, seen as gunicorn sees it: Django's test client takes the body away by itself."""

from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/healthz", "/no/such/page"])
def test_head_is_get_without_the_body(path: str) -> None:
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
