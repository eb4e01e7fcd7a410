"""The ASGI application: it answers each request itself or passes it to Django."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any

from django.conf import settings

from project.serving.answers import Answers, Send
from project.serving.bodies import Body, ClientGone, Message, Receive, Refused
from project.serving.bridge import Bridge
from project.serving.redirects import Redirects
from project.serving.responses import Response, refusal, rendered
from project.wsgi import application, django
from shorturl.pages.error_response import is_api
from shorturl.pages.views import longest_body

# Read once: looking up a setting takes time.
HAS_METRICS = bool(settings.SHORTURL_METRICS_TOKEN)
if HAS_METRICS:
    from project.observability import metrics

ABSOLUTE = re.compile(rb"https?://([^/]*)", re.IGNORECASE)
LOOK_HOLDS = 1.0  # seconds for which /readyz repeats a result


class Service:
    """Answers redirects and probes on the event loop, and passes the rest to Django."""

    def __init__(self) -> None:
        bridge = partial(
            Bridge,
            application,
            admission=django,  # which counts no metrics
            patience=settings.QUEUE_TIMEOUT,
            most_bytes=longest_body,
        )
        self.answers = Answers()
        self.django, self.for_metrics = bridge(threads=settings.THREADS), bridge(threads=1)
        self.probes: dict[str, Callable[[], Awaitable[Response]]] = {
            "/healthz": self.healthz,
            "/readyz": self.readyz,
        }
        self.up: Response | None = None
        self.thread = ThreadPoolExecutor(1, "readyz")
        self.look: asyncio.Future[Response] | None = None
        self.looked_at = 0.0

    @cached_property
    def redirects(self) -> Redirects:
        """What answers redirects; made on the event loop that is running then."""
        return Redirects(settings.QUEUE_TIMEOUT)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        if not scope["path"].startswith("/"):
            with_origin_form(scope)
        try:
            status, headers, body = await self.answer(scope, receive)
        except ClientGone:
            return
        received: Body | None = scope.get("body")
        unread = received if received and received.more else None
        if unread:
            headers = [*headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if body:
            with suppress(TimeoutError):
                await self.answers.send(body, send)
        else:
            await send({"type": "http.response.body"})
        if unread:
            await unread.discard()

    async def answer(self, scope: Message, receive: Receive) -> Response:
        """Return the response to a request; raise ClientGone when the client has gone."""
        method, path = scope["method"], scope["path"]
        known: dict[str, Any] = {}
        try:
            if (probe := self.probes.get(path)) and method in ("GET", "HEAD"):
                return finished(scope, await probe())
            if method == "GET":
                outcome = await self.redirects.answer(scope)
                if isinstance(outcome, Response):
                    return finished(scope, outcome)
                known = outcome
            bridge = self.for_metrics if path == "/metrics" else self.django
            return await bridge.answer(scope, receive, **known)
        except Refused as error:
            status, detail = error.args
            if HAS_METRICS and status == HTTPStatus.SERVICE_UNAVAILABLE:
                metrics.REFUSED.inc()
            return finished(scope, refusal(status, detail, api=is_api(path)))

    async def healthz(self) -> Response:
        self.up = self.up or rendered("/healthz", {})
        return self.up

    async def readyz(self) -> Response:
        """Return the result of the last look at the database; look again after LOOK_HOLDS."""
        loop = asyncio.get_running_loop()
        if self.look is None or (self.look.done() and loop.time() > self.looked_at + LOOK_HOLDS):
            self.looked_at = loop.time()
            self.look = loop.run_in_executor(self.thread, rendered, "/readyz", {})
        return await asyncio.shield(self.look)


def with_origin_form(scope: Message) -> None:
    """Change an absolute-form target, such as http://example.com/key, into a path and its Host.

    RFC 9112, section 3.2.2: a server has to accept this form, and to ignore the Host header then.
    """
    if found := ABSOLUTE.match(scope["raw_path"]):
        scope["path"] = "/" + scope["path"].partition("://")[2].partition("/")[2]
        scope["headers"] = [
            (name, found[1] if name == b"host" else value) for name, value in scope["headers"]
        ]


def finished(scope: Message, response: Response) -> Response:
    """Count a response of the event loop, and add its request id, as Django's responses have it."""
    if HAS_METRICS:
        metrics.count_response(scope["path"], str(response.status))
    if sent := dict(scope["headers"]).get(b"x-request-id"):
        response = response._replace(headers=[*response.headers, (b"x-request-id", sent)])
    return response._replace(body=b"") if scope["method"] == "HEAD" else response
