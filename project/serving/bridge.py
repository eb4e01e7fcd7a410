"""Pass requests from the event loop to Django in a bounded number of threads.

A thread gets a request when its whole body has arrived, and the event loop sends the answer. So no
slow client occupies a thread. A request is refused when no thread becomes free in time.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import Any

from a2wsgi.wsgi import build_environ

from project.serving.responses import Response, response_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

RECEIVE_TIMEOUT = 5.0  # seconds for a body to arrive, from the end of its header
MOST_RECEIVED = 64 * 1024 * 1024  # bytes of bodies received at a time; 32 of the longest
QUEUE_PER_THREAD = 8  # requests that may wait for each thread
BUSY = HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests at the moment."
TOO_SLOW = (
    HTTPStatus.REQUEST_TIMEOUT,
    f"The body did not arrive within {RECEIVE_TIMEOUT:.0f} seconds.",
)
NO_HOST = HTTPStatus.BAD_REQUEST, "Send the Host header, which HTTP/1.1 requires."


class Refused(Exception):
    """The request is not passed to Django. The arguments are the status and detail to answer."""


class ClientGone(Exception):
    """The client has closed the connection before its whole request arrived."""


class Bridge:
    """Has a WSGI application answer in `threads` threads.

    A body of more than `most_bytes(path)` is not received: the application refuses it by its
    length. A request is refused when it has waited `patience` seconds for a thread, or when too
    many others wait.
    """

    def __init__(
        self, application: Any, *, threads: int, patience: float, most_bytes: Callable[[str], int]
    ) -> None:
        self.application, self.patience, self.most_bytes = application, patience, most_bytes
        self.threads = ThreadPoolExecutor(threads, "django")
        self.free = asyncio.Semaphore(threads)
        self.room = threads * QUEUE_PER_THREAD
        self.receiving = 0  # bytes of bodies that have not arrived yet

    async def answer(self, scope: Message, receive: Receive, **more: object) -> Response:
        """Return the answer to a request, with `more` in its environ.

        Raises Refused or ClientGone.
        """
        if scope["http_version"] == "1.1" and not any(n == b"host" for n, _ in scope["headers"]):
            raise Refused(*NO_HOST)
        body = await self.in_time(scope, receive)
        await self.turn()
        environ: Any = build_environ(scope, BytesIO(body))  # type: ignore[arg-type]
        del environ["asgi.scope"]
        asked = partial(response_of, self.application, environ | more)
        answered = asyncio.get_running_loop().run_in_executor(self.threads, asked)
        # The client may go, but the thread becomes free only when it is done.
        answered.add_done_callback(lambda _: self.free.release())
        return await asyncio.shield(answered)

    async def in_time(self, scope: Message, receive: Receive) -> bytes:
        """Return the body; raise Refused if it is too slow, or if too many arrive at a time."""
        declared = dict(scope["headers"])
        most = self.most_bytes(scope["path"])
        length = min(int(declared.get(b"content-length", 0)), most)
        if b"transfer-encoding" in declared:
            length = most
        if length and self.receiving + length > MOST_RECEIVED:
            raise Refused(*BUSY)
        self.receiving += length
        try:
            async with asyncio.timeout(RECEIVE_TIMEOUT):
                return await self.received(scope, receive)
        except TimeoutError as error:
            raise Refused(*TOO_SLOW) from error
        finally:
            self.receiving -= length

    async def turn(self) -> None:
        """Wait until a thread is free; raise Refused when that takes too long."""
        if not self.room:
            raise Refused(*BUSY)
        self.room -= 1
        try:
            async with asyncio.timeout(self.patience):
                await self.free.acquire()
        except TimeoutError as error:
            raise Refused(*BUSY) from error
        finally:
            self.room += 1

    async def received(self, scope: Message, receive: Receive) -> bytes:
        """Return the body; for a chunked one, set its Content-Length in the scope."""
        headers, most = dict(scope["headers"]), self.most_bytes(scope["path"])
        if int(headers.get(b"content-length", 0)) > most:
            return b""
        body, more = bytearray(), b"content-length" in headers or b"transfer-encoding" in headers
        while more and len(body) <= most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if b"transfer-encoding" in headers:
            kept = [each for each in scope["headers"] if each[0] != b"transfer-encoding"]
            scope["headers"] = [*kept, (b"content-length", b"%d" % len(body))]
        return bytes(body)
