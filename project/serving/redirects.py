"""The ASGI application: redirects are counted and answered here, all else is Django's.

Whoever counts a hit answers it. What the event loop counts, it answers from what the statement
returned. What it cannot answer, it does not count: Django gets the request untouched.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

import psycopg2
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.backends.signals import connection_created

from project.middleware import is_allowed
from project.observability import health, request_id
from project.serving import bridge
from project.serving.bridge import Bridge, Message, Receive, Refused, Response, Send
from project.serving.connection import Session
from project.serving.hit_counter import MAX_KEY_STATEMENTS, HitCounter, Row
from project.serving.request_target import use_origin_form
from shorturl import cluster, following
from shorturl.exceptions import RowLocked
from shorturl.links.keys import key_of
from shorturl.models import Visit
from shorturl.outages import database_address
from shorturl.pages import redirect
from shorturl.strategies.recording_visits import combined
from shorturl.visits.classification import classify_visit

# Read once: looking up a setting takes time.
HAS_METRICS = bool(settings.SHORTURL_METRICS_TOKEN)
if HAS_METRICS:
    from project.observability import metrics

    connection_created.connect(metrics.watch_connection)

proxy: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
PROXY_HEADER, PROXY_HTTPS = proxy or ("", "")
# The headers that a redirect depends on, and their names in the WSGI environ.
HEADERS = {
    name.removeprefix("HTTP_").replace("_", "-").lower().encode(): name
    for name in ("HTTP_HOST", PROXY_HEADER, *following.headers_of_visits())
}
# A request with one of these is Django's: it has a body, or a browser loads a page in advance.
FOR_DJANGO = {
    name.lower().encode() for name in ("Content-Length", "Transfer-Encoding", *redirect.PREFETCH)
}
# The headers of a redirect besides its Location, by whether the request came by HTTPS.
COMMON_HEADERS = {
    secure: bridge.encode_headers(redirect.headers_besides_location(secure=secure).items())
    for secure in (False, True)
}
is_allowed_host = lru_cache(1_000)(is_allowed)  # to compare the host takes time
LOCKED = "Too many requests follow this short URL at the moment."
DOWN = "The database is not answering."
logger = logging.getLogger(__name__)


class Redirects:
    """Answers redirects on the event loop, and passes other requests to Django's threads."""

    def __init__(self, django: Any) -> None:
        self.pages = Bridge(django, threads=settings.THREADS)
        # Under any load of other requests a probe has a thread.
        self.probes = {path: Bridge(django, threads=1) for path in health.PROBES}
        self.logged_errors: WeakSet[psycopg2.Error] = WeakSet()  # see log_outage()
        self.counter: Any = None  # made at the first request, as it needs the running event loop

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        if self.counter is None:
            self.counter = make_hit_counter()
            health.hit_counter = self.counter
        if not scope["path"].startswith("/"):
            use_origin_form(scope)
        try:
            response = await self.follow(scope)
            if response is None:
                bridge_to_django = self.probes.get(scope["path"], self.pages)
                response = await bridge_to_django.answer(scope, receive)
        except Refused as refused:
            response = refused.make_response(scope)
            if HAS_METRICS and refused.status == HTTPStatus.SERVICE_UNAVAILABLE:
                metrics.REFUSED.inc()
        if HAS_METRICS:
            metrics.count_response(scope["path"], response.status)
        response.headers.extend(request_id.find_request_id(scope["headers"]))
        with suppress(TimeoutError):
            await bridge.send_response(response, send)

    async def follow(self, scope: Message) -> Response | None:
        """Count a hit and return the redirect; None for a request that Django has to answer.

        Raises Refused when the hit has waited too long, or its statement has failed.
        """
        key = key_of(scope["path"]) if scope["method"] == "GET" else None
        environ = make_environ(scope) if key else None
        if key is None or environ is None:
            return None
        try:
            row = await self.counter.count(key, classify_visit(environ))
            if row is None:
                return None
            location = redirect.find_location(
                row.target_url,
                forward_query=row.forward_query,
                query=scope["query_string"].decode("latin-1"),
            )
        except TimeoutError as error:
            raise Refused from error
        except RowLocked as error:
            raise Refused(LOCKED) from error
        except ValidationError as error:
            raise Refused(redirect.NO_TARGET, HTTPStatus.BAD_REQUEST) from error
        except psycopg2.Error as error:
            self.log_outage(scope, error)
            raise Refused(DOWN) from error
        common = COMMON_HEADERS[is_secure(scope, environ)]
        return Response(302, [(b"location", location.encode()), *common])

    def log_outage(self, scope: Message, error: psycopg2.Error) -> None:
        """Log a statement's error with the id of the first request that meets it.

        All hits of a statement get the same error, and one line has to do.
        """
        if error not in self.logged_errors:
            self.logged_errors.add(error)
            headers = dict(request_id.find_request_id(scope["headers"]))
            notes = getattr(error, "__notes__", [])  # the node of a cluster
            logger.error(
                "GET %s: the database at %s is unavailable: %s",
                scope["path"],
                ", ".join(notes) or database_address(),
                error,
                extra={"request_id": headers.get(request_id.HEADER, b"").decode()},
            )


def make_environ(scope: Message) -> dict[str, str] | None:
    """Return the headers of a redirect by their names in the WSGI environ, with REMOTE_ADDR.

    None stands for a request that Django has to answer, or to refuse.
    """
    address, _port = scope["client"] or ("", 0)  # a Unix socket has no client
    environ = {"REMOTE_ADDR": address}
    for header, value in scope["headers"]:
        if header in FOR_DJANGO:
            return None
        if name := HEADERS.get(header):
            text = value.decode("latin-1")
            environ[name] = f"{environ[name]},{text}" if name in environ else text
    if settings.SECURE_SSL_REDIRECT and not is_secure(scope, environ):
        return None
    return environ if is_allowed_host(environ.get("HTTP_HOST", "")) else None


def is_secure(scope: Message, environ: Mapping[str, str]) -> bool:
    """Return whether the request came by HTTPS, as Django's request.is_secure() does.

    Without a trusted proxy PROXY_HEADER is "", so a client's own header has no effect.
    """
    if PROXY_HEADER in environ:
        return environ[PROXY_HEADER].split(",")[0].strip() == PROXY_HTTPS
    return bool(scope["scheme"] == "https")


def make_hit_counter() -> Any:
    """Return the counter of this process: a HitCounter, or a ClusterHitCounter on a cluster."""
    if cluster.is_distributed():
        from project.citus.cluster_counter import ClusterHitCounter

        return ClusterHitCounter(settings.DATABASE_CITUS_NODES)
    sessions = CountingSessions()
    return HitCounter(sessions.count_keys, sessions.count_key, queue_timeout=settings.QUEUE_TIMEOUT)


class CountingSessions:
    """The sessions of a HitCounter: as many as it may have statements under way."""

    def __init__(self) -> None:
        self.free = [Session() for _ in range(MAX_KEY_STATEMENTS + 1)]

    async def count_keys(self, visits: Mapping[str, Sequence[Visit]]) -> dict[str, Row]:
        """Count the visits to several keys; return the rows of the counted links, by key."""
        params = combined.count_keys_params(visits, keep=settings.SHORTURL_VISITS)
        rows = await self.fetch(combined.COUNT_KEYS, params, name="count_keys")
        return {row.key: row for row in rows}

    async def count_key(self, key: str, visits: Sequence[Visit]) -> Row | None:
        """Count the visits to a key; return the row of the link, or None if it is not counted."""
        params = combined.count_key_params(key, visits, keep=settings.SHORTURL_VISITS)
        try:
            rows = await self.fetch(combined.COUNT_KEY, params, name="count_key")
        except psycopg2.errors.LockNotAvailable as error:
            raise RowLocked(key) from error
        return rows[0] if rows else None

    async def fetch(self, sql: Any, values: Sequence[Any], *, name: str) -> list[Row]:
        """Return the rows of a statement in a free session."""
        session = self.free.pop()
        try:
            return await session.fetch(sql, values, name=name)
        except TimeoutError as error:
            raise psycopg2.OperationalError("PostgreSQL has not answered in time") from error
        finally:
            self.free.append(session)
