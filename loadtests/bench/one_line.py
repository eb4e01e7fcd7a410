"""An ASGI application of one line, which the redirects of the service are compared with."""

from collections.abc import Awaitable, Callable
from typing import Any

HEADERS = [(b"location", b"https://example.com/"), (b"content-length", b"0")]


async def application(
    scope: dict[str, Any], receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Redirect every request."""
    await send({"type": "http.response.start", "status": 302, "headers": HEADERS})
    await send({"type": "http.response.body"})
