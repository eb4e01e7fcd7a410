"""Pass requests from the event loop to Django in a bounded number of threads.

A thread gets a request when its whole body has arrived, and the event loop sends the answer. So no
slow client occupies a thread. A request is refused when no thread becomes free in time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import Any
from wsgiref.util import FileWrapper

from a2wsgi.wsgi import build_environ

from project.serving.bodies import BUSY, UNKNOWN, Body, Message, Receive, Refused, Room
from project.serving.responses import Response, response_of

QUEUE_PER_THREAD = 8  # requests that may wait for each thread
NO_HOST = HTTPStatus.BAD_REQUEST, "Send the Host header, which HTTP/1.1 requires."


class Bridge:
    """Has a WSGI application answer in `threads` threads.

    A body of more than `most_bytes(path)` is not received: the application refuses it by its
    length. `admission` is asked about the sender of a long body. A request is refused when it has
    waited `patience` seconds for a thread, or when too many others wait.
    """

    def __init__(
        self,
        application: Any,
        *,
        admission: Any,
        threads: int,
        patience: float,
        most_bytes: Callable[[str], int],
    ) -> None:
        self.application, self.admission = application, admission
        self.patience, self.most_bytes = patience, most_bytes
        self.threads = ThreadPoolExecutor(threads, "django")
        self.free = asyncio.Semaphore(threads)
        self.waiting = threads * QUEUE_PER_THREAD  # requests that may still wait
        self.room = Room()

    async def answer(self, scope: Message, receive: Receive, **more: object) -> Response:
        """Return the answer to a request, with `more` in its environ.

        The body is in the scope afterwards, as it may not have been received. Raises Refused or
        ClientGone.
        """
        environ: Any = build_environ(scope, None)  # type: ignore[arg-type]
        del environ["asgi.scope"]
        environ |= more
        body = scope["body"] = Body(environ, receive, self.room)
        try:
            if scope["http_version"] == "1.1" and "HTTP_HOST" not in environ:
                raise Refused(*NO_HOST)
            most = self.most_bytes(scope["path"])
            if body.length <= most:
                await body.arrive(min(most, UNKNOWN))
                if body.more and most > UNKNOWN:
                    refusal = await self.asked(self.admission, without_body(environ))
                    if refusal.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                        return refusal
                    await body.arrive(most)
            if environ.pop("HTTP_TRANSFER_ENCODING", None):
                environ["CONTENT_LENGTH"] = str(len(body.data))
            environ["wsgi.input"], environ["wsgi.file_wrapper"] = BytesIO(body.data), FileWrapper
            return await self.asked(self.application, environ)
        finally:
            body.release()

    async def asked(self, application: Any, environ: dict[str, Any]) -> Response:
        """Return the answer of an application in a thread; raise Refused without a free one."""
        await self.turn()
        asked = partial(response_of, application, environ)
        answered = asyncio.get_running_loop().run_in_executor(self.threads, asked)
        # The client may go, but the thread becomes free only when it is done.
        answered.add_done_callback(lambda _: self.free.release())
        return await asyncio.shield(answered)

    async def turn(self) -> None:
        """Wait until a thread is free; raise Refused when that takes too long."""
        if not self.waiting:
            raise Refused(*BUSY)
        self.waiting -= 1
        try:
            async with asyncio.timeout(self.patience):
                await self.free.acquire()
        except TimeoutError as error:
            raise Refused(*BUSY) from error
        finally:
            self.waiting += 1


def without_body(environ: dict[str, Any]) -> dict[str, Any]:
    """Return the environ of the same bulk of links without a link.

    Django answers it with a 422 if it would read the body, and with the refusal if it would not:
    the token, the session and the host are checked before.
    """
    dropped = ("HTTP_IDEMPOTENCY_KEY", "HTTP_TRANSFER_ENCODING")
    kept = {name: value for name, value in environ.items() if name not in dropped}
    empty = {"CONTENT_LENGTH": "0", "CONTENT_TYPE": "application/x-ndjson"}
    return {**kept, **empty, "wsgi.input": BytesIO()}
