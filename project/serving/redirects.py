"""Redirects, answered on the event loop without a thread and without Django's request and response.

The headers of a redirect are copied from one that Django has answered. Django also answers every
request that is no plain redirect: an unknown key, a host that is not allowed, HTTP where HTTPS is
required, a prefetch, a banned target, a database that is down.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http.request import split_domain_port, validate_host

from project.database import greenlets
from project.database.deadlines import answered_within, is_closed
from project.database.prepared import PreparedCursor
from project.serving.bodies import BUSY, Refused
from project.serving.nodes import Nodes
from project.serving.responses import Headers, Response, rendered
from project.serving.unavailable import NOT_SENT
from project.serving.waiting_hits import NotSent, Waiting
from shorturl import following
from shorturl.links.validators import with_query
from shorturl.pages.redirect import PREFETCH

T = TypeVar("T")
FOR_DJANGO = "FOR_DJANGO"  # in an environ: the request has a header that Django alone handles
MOST_KEYS = 64  # in one statement
MOST_HOSTS = 1_000  # remembered results of is_ours()
MOST_REDIRECTS = 10_000  # remembered


class Redirects:
    """The hits of this process. A hit waits at most `patience` seconds until it is sent."""

    def __init__(self, patience: float) -> None:
        self.nodes: Nodes | None = None
        if settings.DATABASE_CITUS:
            self.nodes = Nodes(session, most_keys=MOST_KEYS, patience=patience)
            self.count: Callable[[str, Any], Awaitable[Any]] = self.nodes.add
        else:
            run = greenlets.Greenlets(session).run
            self.count = Waiting(
                partial(run, following.noted(following.count_several)),
                partial(run, following.noted(following.count_key)),
                most_keys=MOST_KEYS,
                patience=patience,
            ).add
        self.needs_https = settings.SECURE_SSL_REDIRECT
        told_by: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
        self.proxy, self.https = told_by or ("", "")
        names = ["HTTP_HOST", self.proxy, *following.headers()]
        self.names = {name[5:].replace("_", "-").lower().encode(): name for name in names}
        of_others = ("content-length", "transfer-encoding", *map(str.lower, PREFETCH))
        self.names |= {name.encode(): FOR_DJANGO for name in of_others}

    async def answer(self, scope: Mapping[str, Any]) -> Response | dict[str, Any]:
        """Return the answer to a GET of a short URL, or an addition to the environ for Django.

        The addition tells Django the outcome of the hit. It is empty if no hit was sent. Raises
        Refused when the hit has waited too long.
        """
        key = following.key_of(scope["path"])
        if not key:
            return {}
        environ = self.environ(scope)
        secure = (
            bool(self.proxy) and environ.get(self.proxy, "").split(",")[0].strip() == self.https
        )
        refused = self.needs_https and not secure
        if FOR_DJANGO in environ or refused or not is_ours(environ.get("HTTP_HOST", "")):
            return {}
        hit = following.hit_of(environ)
        try:
            found = await self.count(key, hit)
        except TimeoutError as error:
            raise Refused(*BUSY) from error
        except NotSent as error:
            return {following.FOUND: error.__cause__, NOT_SENT: True}
        except Exception as error:
            return {following.FOUND: error}
        if found is None:
            return {following.FOUND: None}
        _, _, target_url, _ = found
        if scope["query_string"] and following.may_forward_query(key):
            if self.nodes is None:
                return {following.FOUND: found}
            if await self.nodes.forwards_query(key):
                target_url = with_query(target_url, scope["query_string"].decode("latin-1"))
        location = following.location(target_url)
        return redirect_to(location, secure=secure) if location else {following.FOUND: found}

    def environ(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """Return the part of the WSGI environ that a redirect depends on."""
        environ = {"REMOTE_ADDR": scope["client"][0] if scope["client"] else ""}  # a Unix socket
        for header, value in scope["headers"]:
            if name := self.names.get(header):
                text = value.decode("latin-1")
                environ[name] = f"{environ[name]},{text}" if name in environ else text
        return environ


def session(
    here: greenlets.OnTheLoop,
    connect: Callable[[BaseDatabaseWrapper], None] = lambda connection: (
        connection.ensure_connection()
    ),
) -> Callable[[Callable[[PreparedCursor], T]], T]:
    """Return what calls functions with a cursor of this greenlet's connection.

    The connection is open by `connect`, and waiting for PostgreSQL has a limit. The cursor is kept
    for the next function, because Django takes a while to make one.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    connection.inc_thread_sharing()  # it connects in a thread, as libpq blocks to look up the host
    cursor: PreparedCursor | None = None

    def call(function: Callable[[PreparedCursor], T]) -> T:
        nonlocal cursor
        with answered_within(settings.DATABASE_REQUEST_TIMEOUT):
            # Otherwise the first hit after a restart is a 503, and one after a reset waits for the
            # limit: uvloop watches a connection no more after an error.
            if is_closed(connection.connection):
                connection.close()
            if connection.connection is None:
                try:
                    here.in_thread(partial(connect, connection))
                except Exception as error:
                    raise NotSent from error
            try:
                if cursor is None or cursor.cursor.connection is not connection.connection:
                    cursor = PreparedCursor(connection)
                return function(cursor)
            finally:
                connection.close_if_unusable_or_obsolete()  # Django does this after a request

    return call


@lru_cache(MOST_HOSTS)
def is_ours(host: str) -> bool:
    """Return whether Django accepts requests for this host."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


@cache
def headers(*, secure: bool) -> Headers:
    """Return the headers of a redirect, without its Location."""
    found = (1, "k", "https://example.com/", 1)
    redirect = rendered("/k", {following.FOUND: found}, secure=secure)
    return [each for each in redirect.headers if each[0] != b"location"]


@lru_cache(MOST_REDIRECTS)
def redirect_to(location: str, *, secure: bool) -> Response:
    return Response(302, [*headers(secure=secure), (b"location", location.encode())])
