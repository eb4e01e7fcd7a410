"""Responses of the WSGI application, and responses rendered once in advance."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from http import HTTPStatus
from typing import IO, Any, NamedTuple
from wsgiref.util import FileWrapper, setup_testing_defaults

from django.conf import settings

from project.serving.middleware import REFUSAL
from project.wsgi import django

Headers = Sequence[tuple[bytes, bytes]]


class Response(NamedTuple):
    """A response in the types of ASGI. A file is still to be read, and closed."""

    status: int
    headers: Headers
    body: bytes | IO[bytes] = b""


def response_of(application: Callable[..., Iterable[bytes]], environ: dict[str, Any]) -> Response:
    """Return the response of a WSGI application; with a FileWrapper the body is its file."""
    status, headers = 0, list[tuple[str, str]]()

    def start_response(line: str, named: list[tuple[str, str]], *_: Any) -> None:
        nonlocal status, headers
        status, headers = int(line[:3]), named

    response: Any = application(environ, start_response)
    if isinstance(response, FileWrapper):
        return Response(status, encoded(headers), response.filelike)
    try:
        body = b"".join(response)
    finally:
        response.close()
    sent = encoded(headers)
    if body and b"content-length" not in dict(sent):
        sent.append((b"content-length", b"%d" % len(body)))
    return Response(status, sent, body)


def encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]


def rendered(path: str, known: dict[str, Any], *, secure: bool | None = None) -> Response:
    """Return Django's response to a GET of the path with `known` in its environ.

    `secure` is whether the GET comes by HTTPS. By default it does if Django requires HTTPS.
    """
    environ = dict(known)
    scheme = "https" if (settings.SECURE_SSL_REDIRECT if secure is None else secure) else "http"
    host = next(iter(settings.ALLOWED_HOSTS), "*").removeprefix(".")
    environ["HTTP_HOST"] = "localhost" if host == "*" else host
    if settings.SECURE_PROXY_SSL_HEADER:
        name, https = settings.SECURE_PROXY_SSL_HEADER
        environ[name] = https if scheme == "https" else scheme
    setup_testing_defaults(environ)
    return response_of(django, environ | {"PATH_INFO": path, "wsgi.url_scheme": scheme})


@cache
def refusal(status: HTTPStatus, detail: str, *, api: bool) -> Response:
    """Return the response to a refused request: JSON or a page."""
    return rendered("/api/" if api else "/", {REFUSAL: (status, detail)})
