"""The ASGI application: redirects are counted and answered here, all else is Django's.

Whoever counts a hit answers it. What the event loop counts, it answers from what the statement
returned. What it cannot answer, it does not count: Django gets the request untouched.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any

import psycopg2
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http.request import split_domain_port, validate_host

from project.middleware import MAX_HOST_LENGTH
from project.observability import health
from project.observability.request_id import HEADER, VALID_ID
from project.serving import bridge
from project.serving.bridge import Bridge, Message, Receive, Refused, Response, Send
from project.serving.connection import Session, Statement, connect
from project.serving.hit_counter import MAX_KEY_STATEMENTS, HitCounter, Row
from shorturl import following
from shorturl.exceptions import RowLocked
from shorturl.links.keys import key_of
from shorturl.models import Visit
from shorturl.outages import LOCK_NOT_AVAILABLE
from shorturl.pages.redirect import NO_TARGET, PREFETCH, redirect_headers

# Read once: looking up a setting takes time.
HAS_METRICS = bool(settings.SHORTURL_METRICS_TOKEN)
if HAS_METRICS:
    from project.observability import metrics

COUNT_KEY = Statement("count_key", following.COUNT_KEY, ["bigint", "text", "bigint", "jsonb"])
COUNT_KEYS = Statement(
    "count_keys", following.COUNT_KEYS, ["jsonb", "text[]", "bigint[]", "bigint[]"]
)
proxy: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
PROXY_HEADER, PROXY_HTTPS = proxy or ("", "")
# The headers that a redirect depends on, with their names in the WSGI environ.
HEADERS = {
    name.removeprefix("HTTP_").replace("_", "-").lower().encode(): name
    for name in ("HTTP_HOST", PROXY_HEADER, *following.headers_of_visits())
}
# A request with one of these is Django's: it has a body, or a browser loads a page in advance.
FOR_DJANGO = {name.lower().encode() for name in ("Content-Length", "Transfer-Encoding", *PREFETCH)}
REQUEST_ID = HEADER.lower().encode()
MAX_HOSTS = 1_000  # remembered results of is_allowed()
LOCKED = HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests follow this short URL at the moment."
DOWN = HTTPStatus.SERVICE_UNAVAILABLE, "The database is not answering."
logger = logging.getLogger(__name__)


class CountingSessions:
    """The sessions that count hits: one for several keys, and others for one key each."""

    def __init__(self, connect: Callable[[float], Any] = connect) -> None:
        session = partial(
            Session,
            [COUNT_KEY, COUNT_KEYS],
            timeout=settings.DATABASE_REQUEST_TIMEOUT,
            prepares=settings.DATABASE_POOLER == "none",
            connect=connect,
        )
        self.of_keys = session()
        self.free = [session() for _ in range(MAX_KEY_STATEMENTS)]

    async def count_keys(self, visits: Mapping[str, Sequence[Visit]]) -> dict[str, Row]:
        """Count the visits to several keys; return the rows of the counted links, by key."""
        rows = await fetch(self.of_keys, COUNT_KEYS, following.keys_values(visits))
        return {row[1]: row for row in rows}

    async def count_key(self, key: str, visits: Sequence[Visit]) -> Row | None:
        """Count the visits to a key; return the row of the link, or None if it is not counted."""
        session = self.free.pop()
        try:
            rows = await fetch(session, COUNT_KEY, following.key_values(key, visits))
        except psycopg2.Error as error:
            if error.pgcode == LOCK_NOT_AVAILABLE:
                raise RowLocked(key) from error
            raise
        finally:
            self.free.append(session)
        return rows[0] if rows else None


async def fetch(session: Session, statement: Statement, values: Sequence[Any]) -> list[Row]:
    try:
        if HAS_METRICS:
            rows: list[Row] = await metrics.time_fetch(session.fetch, statement, values)
            return rows
        return await session.fetch(statement, values)
    except Exception as error:
        logger.error("A statement of redirects failed: %s", str(error) or type(error).__name__)
        raise


class Redirects:
    """Answers redirects on the event loop, and passes other requests to Django's threads."""

    def __init__(self, django: Any) -> None:
        to_django = partial(Bridge, django, queue_timeout=settings.QUEUE_TIMEOUT)
        self.pages = to_django(threads=settings.THREADS)
        # Under any load of other requests a probe has a thread.
        self.probes = {path: to_django(threads=1) for path in health.PROBES}
        self.counter: Any = None  # made on the event loop that is running then

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        if self.counter is None:
            self.counter = health.hit_counter = make_counter()
        try:
            response = await self.follow(scope)
            if response is None:
                to_django = self.probes.get(scope["path"], self.pages)
                response = await to_django.answer(scope, receive)
        except Refused as error:
            response = finish(scope, bridge.refusal(scope, *error.args))
        except bridge.ClientGone:
            return
        with suppress(TimeoutError):
            await bridge.send_response(response, send)

    async def follow(self, scope: Message) -> Response | None:
        """Count a hit and return the redirect; None for a request that is Django's.

        Raises Refused when the hit has waited too long, or its statement has failed.
        """
        key = key_of(scope["path"]) if scope["method"] == "GET" else None
        environ = environ_of(scope) if key else None
        if key is None or environ is None or not is_allowed(environ.get("HTTP_HOST", "")):
            return None
        secure = is_secure(scope, environ)
        if settings.SECURE_SSL_REDIRECT and not secure:
            return None
        try:
            row = await self.counter.count(key, following.classify(environ))
            if row is None:
                return None
            _, _, target_url, _, forward_query = row
            headers = redirect_headers(
                target_url,
                forward_query=forward_query,
                query=scope["query_string"].decode("latin-1"),
                secure=secure,
            )
        except TimeoutError as error:
            raise Refused(*bridge.BUSY) from error
        except RowLocked as error:
            raise Refused(*LOCKED) from error
        except ValidationError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, NO_TARGET) from error
        except psycopg2.Error as error:
            raise Refused(*DOWN) from error
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        return finish(scope, Response(HTTPStatus.FOUND, encoded))


def make_counter() -> Any:
    """Return the counter of hits of this process: a HitCounter, or what does the same on Citus."""
    if settings.DATABASE_CITUS:
        from project.citus.cluster_counter import ClusterHitCounter

        return ClusterHitCounter(settings.DATABASE_CITUS_NODES)
    sessions = CountingSessions()
    return HitCounter(sessions.count_keys, sessions.count_key, queue_timeout=settings.QUEUE_TIMEOUT)


def environ_of(scope: Message) -> dict[str, str] | None:
    """Return the part of the WSGI environ that a redirect depends on; None for Django's request."""
    environ = {"REMOTE_ADDR": scope["client"][0] if scope["client"] else ""}  # a Unix socket
    for header, value in scope["headers"]:
        if header in FOR_DJANGO:
            return None
        if name := HEADERS.get(header):
            text = value.decode("latin-1")
            environ[name] = f"{environ[name]},{text}" if name in environ else text
    return environ


def is_secure(scope: Message, environ: Mapping[str, str]) -> bool:
    """Return whether the request came by HTTPS, as Django's request.is_secure() does."""
    if PROXY_HEADER in environ:
        return environ[PROXY_HEADER].split(",")[0].strip() == PROXY_HTTPS
    return bool(scope["scheme"] == "https")


@lru_cache(MAX_HOSTS)
def is_allowed(host: str) -> bool:
    """Return whether Django accepts requests for this host."""
    domain, _ = split_domain_port(host[: MAX_HOST_LENGTH + 1])
    is_short = len(host) <= MAX_HOST_LENGTH
    return is_short and bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def finish(scope: Message, response: Response) -> Response:
    """Count a response of the event loop, and add its request id, as Django's responses have it."""
    if HAS_METRICS:
        metrics.count_response(scope["path"], str(int(response.status)))
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            metrics.REFUSED.inc()
    sent = dict(scope["headers"]).get(REQUEST_ID, b"")
    if sent and VALID_ID.fullmatch(sent.decode("latin-1")):
        response = response._replace(headers=[*response.headers, (REQUEST_ID, sent)])
    return response
