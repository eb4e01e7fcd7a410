"""A WSGI application of one line: what the redirects of the service are measured against."""

from collections.abc import Callable
from typing import Any


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Redirect, whatever was asked for."""
    start_response("302 Found", [("Location", "https://example.com/"), ("Content-Length", "0")])
    return []
