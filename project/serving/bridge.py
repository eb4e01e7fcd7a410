"""The way from the event loop to Django, in a bounded number of threads.

A request gets a thread when its whole body has arrived, and the event loop sends the answer. So no
slow client occupies a thread. A request is refused when no thread becomes free in time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from io import BytesIO
from typing import Any, NamedTuple

from a2wsgi.wsgi import build_environ
from django.conf import settings
from django.http.response import HttpResponseBase

from project.unavailable import make_refusal

MAX_BODY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
MAX_BODIES_BYTES = 64 * 1024 * 1024  # of all bodies that a worker has at a time
BODY_TIMEOUT = 5.0  # seconds for a body to arrive
# Seconds for a client to receive each part of an answer. The kernel ends a connection without
# progress, but not while the client goes on sending requests.
SEND_TIMEOUT = 10.0
PART_BYTES = 64 * 1024
TOO_LONG = f"The body is too large: send at most {MAX_BODY_BYTES:,} bytes."
TOO_SLOW = f"The body did not arrive within {BODY_TIMEOUT:.0f} seconds."

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Response(NamedTuple):
    """A response in the types of ASGI."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""


class Refused(Exception):
    """Refuses a request, which Django does not get. `detail` is a sentence for people."""

    def __init__(
        self,
        detail: str = "Too many requests at the moment.",
        status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE,
    ) -> None:
        self.detail = detail
        self.status = status

    def make_response(self, scope: Message) -> Response:
        """Return the response to the request."""
        return convert_to_asgi(
            make_refusal(scope["method"], scope["path"], self.status, self.detail)
        )


class Bridge:
    """Calls `django`, a WSGI application, in at most `threads` threads at a time."""

    def __init__(self, django: Any, *, threads: int) -> None:
        self.django = django
        self.threads = ThreadPoolExecutor(threads, "django")
        self.free_threads = asyncio.Semaphore(threads)
        self.bodies_bytes = 0  # of all requests that are not answered yet

    async def answer(self, scope: Message, receive: Receive) -> Response:
        """Return Django's response to a request; raise Refused."""
        environ: Any = build_environ(scope, None)  # type: ignore[arg-type]
        environ.setdefault("HTTP_HOST", "")  # which Django refuses
        body = bytearray()
        try:
            await self.receive_body(body, receive)
            environ["CONTENT_LENGTH"] = str(len(body))
            environ["wsgi.input"] = BytesIO(body)
            return await self.call_in_thread(environ)
        finally:
            self.bodies_bytes -= len(body)  # which receive_body() has added

    async def receive_body(self, body: bytearray, receive: Receive) -> None:
        """Add the body of a request to `body`, until all of it has arrived.

        A body that is refused is received, too: the kernel resets a connection that is closed
        before all is read, and the client may lose the answer.
        """
        refused = None
        more = True
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise TimeoutError  # the client has left, and no answer reaches it
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) + len(part) > MAX_BODY_BYTES:
                        refused = Refused(TOO_LONG, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                    elif self.bodies_bytes + len(part) > MAX_BODIES_BYTES:
                        refused = Refused()
                    elif refused is None:
                        body += part
                        self.bodies_bytes += len(part)
        except TimeoutError as error:
            raise refused or Refused(TOO_SLOW, HTTPStatus.REQUEST_TIMEOUT) from error
        if refused:
            raise refused

    async def call_in_thread(self, environ: dict[str, Any]) -> Response:
        """Return Django's response; raise Refused if no thread becomes free in time."""
        try:
            async with asyncio.timeout(settings.QUEUE_TIMEOUT):
                await self.free_threads.acquire()
        except TimeoutError as error:
            raise Refused from error
        loop = asyncio.get_running_loop()
        response = loop.run_in_executor(self.threads, call_django, self.django, environ)
        # Also when the client has gone, the thread is not free until Django has answered.
        response.add_done_callback(lambda _: self.free_threads.release())
        return await asyncio.shield(response)


def call_django(django: Any, environ: dict[str, Any]) -> Response:
    """Call Django's WSGI application, and return its response."""
    # Django returns an HttpResponse, which has all that Django passes to start_response().
    return convert_to_asgi(django(environ, lambda *_: None))


def convert_to_asgi(response: HttpResponseBase) -> Response:
    """Read and close a response of Django, and return the same in the types of ASGI."""
    headers = encode_headers(response.items())
    for cookie in response.cookies.values():
        headers.append((b"set-cookie", cookie.OutputString().encode()))
    try:
        body = b"".join(response)
    finally:
        response.close()
    if body and not response.has_header("Content-Length"):
        headers.append((b"content-length", b"%d" % len(body)))
    return Response(response.status_code, headers, body)


def encode_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]


async def send_response(response: Response, send: Send) -> None:
    """Send a response; raise TimeoutError when the client does not receive a part in time.

    gunicorn then closes the connection, as the response is not complete.
    """
    start = {"status": response.status, "headers": response.headers}
    await send({"type": "http.response.start", **start})
    for begin in range(0, len(response.body), PART_BYTES):
        part = response.body[begin : begin + PART_BYTES]
        async with asyncio.timeout(SEND_TIMEOUT):
            await send({"type": "http.response.body", "body": part, "more_body": True})
    # Without bytes gunicorn does not wait. If the client reads nothing, the kernel ends its
    # connection later.
    await send({"type": "http.response.body"})
