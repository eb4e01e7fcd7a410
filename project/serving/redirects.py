"""Redirects, answered on the event loop without a thread and without Django's request and response.

The headers of a redirect are copied from one that Django has answered. Django also answers every
request that is no plain redirect: an unknown key, a host that is not allowed, HTTP where HTTPS is
required, a banned target, a database that is down.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections
from django.http.request import split_domain_port, validate_host
from django.utils.encoding import iri_to_uri

from project.database import greenlets
from project.database.deadlines import answered_within
from project.database.nodes_of_keys import Places
from project.database.prepared import PreparedCursor
from project.serving.bridge import BUSY, Refused
from project.serving.responses import Headers, Response, made
from project.serving.unavailable import is_closed
from project.serving.waiting_hits import Waiting
from shorturl import operations
from shorturl.links import bans
from shorturl.links.validators import ascii_url
from shorturl.models import ShortUrl
from shorturl.pages.redirect import FOUND, kinds
from shorturl.visits.classification import visit_of

T = TypeVar("T")
BODY = "BODY"  # in an environ: the request has a header of a body
MOST_KEYS = 64  # in one statement
MOST_HOSTS = 1_000  # remembered results of is_ours()
MOST_TARGETS = 10_000  # remembered redirects


class Redirects:
    """The hits of this process. A hit waits at most `patience` seconds until it is sent.

    The settings that every redirect needs are read once.
    """

    def __init__(self, patience: float) -> None:
        several, often = operations.follow_several, operations.follow_often
        options: dict[str, Any] = {}
        if settings.DATABASE_CITUS:
            places = Places()
            several, often, options = places.look_up, places.follow_often, {"place": places.of}
        run = greenlets.Greenlets(session).run
        self.waiting = Waiting(
            partial(run, several),
            partial(run, often),
            most_keys=MOST_KEYS,
            patience=patience,
            **options,
        )
        self.records_visits = bool(settings.SHORTURL_VISITS)
        self.visit_of = partial(visit_of, with_country=bool(settings.SHORTURL_GEOIP))
        self.needs_https = settings.SECURE_SSL_REDIRECT
        told_by: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
        self.proxy, self.https = told_by or ("", "")
        names = ["HTTP_HOST", self.proxy]
        if self.records_visits:
            names += ["HTTP_USER_AGENT", "HTTP_REFERER"]
        if settings.SHORTURL_GEOIP:
            names.append("HTTP_X_FORWARDED_FOR")
        self.names = {name[5:].replace("_", "-").lower().encode(): name for name in names}
        self.names |= dict.fromkeys((b"content-length", b"transfer-encoding"), BODY)

    async def answer(self, scope: Mapping[str, Any], key: str) -> Response | dict[str, Any]:
        """Return the answer to a GET of a short URL, or an addition to the environ for Django.

        The addition tells Django the outcome of the hit. It is empty if no hit was sent. Raises
        Refused when the hit has waited too long.
        """
        environ = self.environ(scope)
        secure = (
            bool(self.proxy) and environ.get(self.proxy, "").split(",")[0].strip() == self.https
        )
        refused = self.needs_https and not secure
        if BODY in environ or refused or not is_ours(environ.get("HTTP_HOST", "")):
            return {}
        visit = kinds.bounded(key, self.visit_of(environ)) if self.records_visits else None
        try:
            found = await self.waiting.add(key, visit)
        except TimeoutError as error:
            raise Refused(*BUSY) from error
        except Exception as error:
            return {FOUND: error}
        if found is None:
            return {FOUND: None}
        if visit:
            kinds.add(key, visit)
        _, _, target_url, _ = found
        redirect = redirect_to(target_url, bans.known.domains, secure=secure)
        return redirect or {FOUND: ShortUrl(key=key, target_url=target_url)}

    def environ(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """Return the part of the WSGI environ that a redirect depends on."""
        environ = {"REMOTE_ADDR": scope["client"][0] if scope["client"] else ""}  # a Unix socket
        for header, value in scope["headers"]:
            if name := self.names.get(header):
                text = value.decode("latin-1")
                environ[name] = f"{environ[name]},{text}" if name in environ else text
        return environ


def session(here: greenlets.OnTheLoop) -> Callable[[Callable[[PreparedCursor], T]], T]:
    """Return what calls functions with a cursor of this greenlet's connection.

    The connection is open, and waiting for PostgreSQL has a limit. The cursor is kept for the next
    function, because Django takes a while to make one.
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
                here.in_thread(connection.ensure_connection)
            try:
                bans.refresh()
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
    found = ShortUrl(key="k", target_url="https://example.com/")
    redirect = made("/k", {FOUND: found}, secure=secure)
    return [each for each in redirect.headers if each[0] != b"location"]


@lru_cache(MOST_TARGETS)
def redirect_to(target_url: str, banned: frozenset[str], *, secure: bool) -> Response | None:
    """Return the redirect to a target; None for a target that Django refuses."""
    try:
        if bans.banned(target_url, banned):
            return None
        location = iri_to_uri(ascii_url(target_url))
    except ValidationError:
        return None
    if not location.startswith(("https://", "http://")):
        return None
    return Response(302, [*headers(secure=secure), (b"location", location.encode())])
