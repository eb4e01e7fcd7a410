"""The way from the event loop to Django, in a bounded number of threads.

A request gets a thread when its whole body has arrived, and the event loop sends the answer. So no
slow client occupies a thread. A request is refused when no thread becomes free in time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from io import BytesIO
from typing import Any, NamedTuple

from a2wsgi.wsgi import build_environ
from csp.utils import build_policy
from django.conf import settings
from django.http import HttpRequest

from shorturl.error_response import error_response

MAX_WAITING_REQUESTS = 8  # for each thread
MAX_BODY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
MAX_BODIES_BYTES = 64 * 1024 * 1024  # of all bodies that a worker has at a time
BODY_TIMEOUT = 5.0  # seconds for a body to arrive
# Seconds for a client to receive each part of an answer. The kernel ends a connection without
# progress, but not while the client goes on sending requests.
SEND_TIMEOUT = 10.0
PART_BYTES = 64 * 1024
RETRY_AFTER = "1"  # seconds

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Response(NamedTuple):
    """A response in the types of ASGI."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes = b""


class Refused(Exception):
    """The request is not passed to Django. The arguments are the status and the detail."""


class ClientGone(Exception):
    """The client has closed the connection before its whole request arrived."""


BUSY = HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests at the moment."
NO_HOST = HTTPStatus.BAD_REQUEST, "Send the Host header, which HTTP/1.1 requires."
TOO_LONG = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    f"The body is too large: send at most {MAX_BODY_BYTES:,} bytes.",
)
TOO_SLOW = (
    HTTPStatus.REQUEST_TIMEOUT,
    f"The body did not arrive within {BODY_TIMEOUT:.0f} seconds.",
)


class Bridge:
    """Has a WSGI application answer in `threads` threads.

    A request waits at most `queue_timeout` seconds for a thread.
    """

    def __init__(self, application: Any, *, threads: int, queue_timeout: float) -> None:
        self.application, self.queue_timeout = application, queue_timeout
        self.threads = ThreadPoolExecutor(threads, "django")
        self.free_threads = asyncio.Semaphore(threads)
        self.free_places = threads * MAX_WAITING_REQUESTS  # for requests that wait for a thread
        self.bodies_bytes = 0

    async def answer(self, scope: Message, receive: Receive) -> Response:
        """Return the application's response to a request; raise Refused or ClientGone."""
        environ: Any = build_environ(scope, None)  # type: ignore[arg-type]
        del environ["asgi.scope"]
        if scope["http_version"] == "1.1" and "HTTP_HOST" not in environ:
            raise Refused(*NO_HOST)
        body = bytearray()
        try:
            await self.receive_body(body, environ, receive)
            if environ.pop("HTTP_TRANSFER_ENCODING", None):
                environ["CONTENT_LENGTH"] = str(len(body))
            environ["wsgi.input"] = BytesIO(body)
            return await self.run(environ)
        finally:
            self.bodies_bytes -= len(body)

    async def receive_body(
        self, body: bytearray, environ: dict[str, Any], receive: Receive
    ) -> None:
        """Add the body of a request to `body`, until all of it has arrived.

        A body that is refused is received, too: the kernel resets a connection that is closed
        before all is read, and the client may lose the answer.
        """
        length = int(environ.get("CONTENT_LENGTH") or 0)
        refusal = TOO_LONG if length > MAX_BODY_BYTES else None
        more = "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part, more = message.get("body", b""), message.get("more_body", False)
                    if len(body) + len(part) > MAX_BODY_BYTES:
                        refusal = TOO_LONG
                    elif self.bodies_bytes + len(part) > MAX_BODIES_BYTES:
                        refusal = BUSY
                    elif refusal is None:
                        body += part
                        self.bodies_bytes += len(part)
        except TimeoutError as error:
            raise Refused(*(refusal or TOO_SLOW)) from error
        if refusal:
            raise Refused(*refusal)

    async def run(self, environ: dict[str, Any]) -> Response:
        """Return the application's response in a thread; raise Refused without a free one."""
        if not self.free_places:
            raise Refused(*BUSY)
        self.free_places -= 1
        try:
            async with asyncio.timeout(self.queue_timeout):
                await self.free_threads.acquire()
        except TimeoutError as error:
            raise Refused(*BUSY) from error
        finally:
            self.free_places += 1
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self.threads, call, self.application, environ)
        # The client may go, but the thread becomes free only when it is done.
        answer.add_done_callback(lambda _: self.free_threads.release())
        return await asyncio.shield(answer)


def call(application: Callable[..., Iterable[bytes]], environ: dict[str, Any]) -> Response:
    """Return the response of a WSGI application."""
    status, headers = 0, list[tuple[bytes, bytes]]()

    def start_response(line: str, named: list[tuple[str, str]], *_: Any) -> None:
        nonlocal status
        status = int(line[:3])
        headers.extend((name.lower().encode(), value.encode("latin-1")) for name, value in named)

    response: Any = application(environ, start_response)
    try:
        body = b"".join(response)
    finally:
        response.close()
    if body and b"content-length" not in dict(headers):
        headers.append((b"content-length", b"%d" % len(body)))
    return Response(status, headers, body)


def refusal(scope: Message, status: HTTPStatus, detail: str) -> Response:
    """Return the answer to a request that Django does not get: a page, or JSON under /api."""
    request = HttpRequest()
    request.path_info = scope["path"]
    response = error_response(
        request, status, detail, busy=status == HTTPStatus.SERVICE_UNAVAILABLE
    )
    response["Cache-Control"] = "no-store"
    response["Content-Security-Policy"] = build_policy()
    response["Content-Length"] = str(len(response.content))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response["Retry-After"] = RETRY_AFTER
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        response["Connection"] = "close"
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    return Response(status, headers, b"" if scope["method"] == "HEAD" else response.content)


async def send_response(response: Response, send: Send) -> None:
    """Send a response; raise TimeoutError when the client does not receive a part of it.

    gunicorn closes the connection of half a response.
    """
    start = {"status": response.status, "headers": response.headers}
    await send({"type": "http.response.start", **start})
    body = response.body
    for begin in range(0, len(body), PART_BYTES):
        async with asyncio.timeout(SEND_TIMEOUT):
            part = {"body": body[begin : begin + PART_BYTES], "more_body": True}
            await send({"type": "http.response.body", **part})
    # It waits only for a client that reads nothing, whose connection the kernel ends.
    await send({"type": "http.response.body"})
