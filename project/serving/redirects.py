"""Redirects, answered on the event loop: no thread, and none of Django's request and response.

Which headers a redirect has, Django says: they are those of one that it has answered itself. It
also answers everything that is no plain redirect: a key that leads nowhere, a host that may not
ask, another scheme than the service demands, a banned target, a database that is away.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http.request import split_domain_port, validate_host
from django.utils.encoding import iri_to_uri

from project.database import greenlets
from project.database.deadlines import answered_within
from project.database.nodes_of_keys import Places
from project.database.prepared import prepared
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
BODY = "BODY"  # in an environ: that the request says it has one
MOST_KEYS = 64  # of one statement
MOST_HOSTS = 1_000  # of which it is remembered whether they may ask
MOST_TARGETS = 1_000  # of which it is remembered how they are encoded


class Redirects:
    """The hits of this process, which wait for at most `patience` seconds until they are sent.

    What it asks the settings for on every redirect, it asks once.
    """

    def __init__(self, patience: float) -> None:
        several, often = operations.follow_several, operations.follow_often
        options: dict[str, Any] = {}
        if settings.DATABASE_CITUS:
            places = Places()
            several, often, options = places.look_up, places.follow_often, {"place": places.of}
        run = greenlets.Greenlets().run
        self.waiting = Waiting(
            partial(run, with_connection, several),
            partial(run, with_connection, often),
            most_keys=MOST_KEYS,
            patience=patience,
            **options,
        )
        self.records_visits = bool(settings.SHORTURL_VISITS)
        self.needs_https = settings.SECURE_SSL_REDIRECT
        told_by: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
        self.proxy, self.https = told_by or ("", "")
        names = ["HTTP_HOST", "HTTP_USER_AGENT", "HTTP_REFERER", "HTTP_X_FORWARDED_FOR", self.proxy]
        self.names = {name[5:].replace("_", "-").lower().encode(): name for name in names}
        self.names |= dict.fromkeys((b"content-length", b"transfer-encoding"), BODY)

    async def answer(self, scope: Mapping[str, Any], key: str) -> Response | dict[str, Any]:
        """Return the answer to a GET of a short URL; or else what Django has to know to answer it.

        That is what became of the hit, and nothing where Django has to look first. Raises Refused
        when too many wait.
        """
        environ = self.environ(scope)
        secure = (
            bool(self.proxy) and environ.get(self.proxy, "").split(",")[0].strip() == self.https
        )
        refused = self.needs_https and not secure
        if BODY in environ or refused or not is_ours(environ.get("HTTP_HOST", "")):
            return {}
        visit = kinds.bounded(key, visit_of(environ)) if self.records_visits else None
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
        target_url, _ = found
        location = location_of(target_url, bans.known.domains)
        if location is None:
            return {FOUND: ShortUrl(key=key, target_url=target_url)}
        return Response(302, [*headers(secure=secure), (b"location", location)])

    def environ(self, scope: Mapping[str, Any]) -> dict[str, str]:
        """Return what a redirect depends on, as the WSGI environ has it."""
        environ = {"REMOTE_ADDR": scope["client"][0] if scope["client"] else ""}  # a Unix socket
        for header, value in scope["headers"]:
            if name := self.names.get(header):
                text = value.decode("latin-1")
                environ[name] = f"{environ[name]},{text}" if name in environ else text
        return environ


def with_connection(function: Callable[..., T], *arguments: Any) -> T:
    """Return what the function returns, on a connection that is open and has its limits."""
    connection = connections[DEFAULT_DB_ALIAS]
    with answered_within(settings.DATABASE_REQUEST_TIMEOUT), connection.execute_wrapper(prepared):
        if is_closed(connection.connection):  # or the first hit after a restart would be a 503
            connection.close()
        if connection.connection is None and (here := greenlets.current()):
            connection.inc_thread_sharing()
            here.in_thread(partial(connect, connection))
        try:
            bans.refresh()
            return function(*arguments)
        finally:
            connection.close_if_unusable_or_obsolete()  # as Django does after a request


def connect(wrapper: BaseDatabaseWrapper) -> None:
    """Connect, in a thread: libpq blocks while it looks up the host."""
    with answered_within(settings.DATABASE_REQUEST_TIMEOUT):
        wrapper.ensure_connection()


@lru_cache(MOST_HOSTS)
def is_ours(host: str) -> bool:
    """Return whether Django takes requests for this host."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


@cache
def headers(*, secure: bool) -> Headers:
    """Return the headers of a redirect, without its Location."""
    found = ShortUrl(key="k", target_url="https://example.com/")
    redirect = made("/k", {FOUND: found}, secure=secure)
    return [each for each in redirect.headers if each[0] != b"location"]


@lru_cache(MOST_TARGETS)
def location_of(target_url: str, banned: frozenset[str]) -> bytes | None:
    """Return the Location of a redirect; None for a target that Django has to refuse."""
    try:
        if bans.banned(target_url, banned):
            return None
        location = iri_to_uri(ascii_url(target_url))
    except ValidationError:
        return None
    return location.encode() if location.startswith(("https://", "http://")) else None
