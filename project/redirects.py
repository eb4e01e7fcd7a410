"""The short way of a redirect: in front of Django's request, middleware and response objects.

They take longer than the statement that counts. What is answered, and with which headers, they
still decide: the headers of a redirect are those of the first one, which goes all the way, and so
does everything but a GET of a short URL that is found, from a host that may ask, by the scheme
that the service demands.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.http.request import split_domain_port, validate_host
from django.utils.encoding import iri_to_uri

from project.prepared import prepared
from project.together import TOGETHER
from project.unavailable import asking_the_database
from shorturl import views
from shorturl.keys import MAX_LENGTH, key_of
from shorturl.models import ShortUrl
from shorturl.operations import following
from shorturl.validators import ascii_url

Environ = dict[str, Any]
Headers = list[tuple[str, str]]
# Of the bytes of a request: the path, as long as that of a short URL.
GET = re.compile(rb"GET (/[^ ?]{1,%d})[ ?]" % MAX_LENGTH)
MOST_HOSTS = 1_000  # of which it is remembered whether they may ask
# Targets that need no encoding, as most do. To find that out otherwise takes five times as long.
PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?:[/?#][A-Za-z0-9._~:/?#@!$&'()*+,;=%-]*)?")


class Redirects:
    """A WSGI application that answers redirects, and has `application` answer the rest."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.headers: dict[str, Headers] = {}  # of a redirect, by the scheme
        self.may_ask = lru_cache(MOST_HOSTS)(may_ask)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        together = environ.pop(TOGETHER, ())  # which no page or log of an error is to show
        path = environ["PATH_INFO"]
        key = key_of(path)
        scheme = self.scheme(environ)
        if key is None or scheme is None:
            return self.application(environ, start_response)
        if views.FOUND not in environ:
            others = (each for each in together if each is not environ)
            asking = (each for each in others if each["PATH_INFO"] == path and self.scheme(each))
            self.follow(key, [environ, *asking])
        found = environ[views.FOUND]
        if isinstance(found, ShortUrl) and scheme in self.headers:
            location = location_of(found)
            if location:
                start_response("302 Found", [*self.headers[scheme], ("Location", location)])
                return []

        def remember(status: str, headers: Headers, *error: object) -> object:
            if status.startswith("302 "):
                self.headers[scheme] = [each for each in headers if each[0] != "Location"]
            return start_response(status, headers, *error)

        return self.application(environ, remember)

    def follow(self, key: str, environs: Sequence[Environ]) -> None:
        """Count the hits of all these requests; keep in the environ of each what came of it."""
        outcomes: Sequence[object]
        try:
            with asking_the_database() as connections, connection.execute_wrapper(prepared):
                outcomes = views.follow_together(key, environs)
                for each in connections:  # as Django does after a request
                    each.close_if_unusable_or_obsolete()
        except Exception as error:
            outcomes = [error] * len(environs)
        for environ, outcome in zip(environs, outcomes, strict=True):
            environ[views.FOUND] = outcome

    def scheme(self, environ: Environ) -> str | None:
        """Return the scheme of a request that may go the short way, else None."""
        scheme: str = environ["wsgi.url_scheme"]
        if settings.SECURE_PROXY_SSL_HEADER:
            name, secure = settings.SECURE_PROXY_SSL_HEADER
            said = environ.get(name)
            if said is not None:
                scheme = "https" if said.split(",")[0].strip() == secure else "http"
        goes = (
            environ["REQUEST_METHOD"] == "GET"
            and environ.get("CONTENT_LENGTH", "") in ("", "0")
            and self.may_ask(environ.get("HTTP_HOST", ""))
            and (scheme == "https" or not settings.SECURE_SSL_REDIRECT)
            and not settings.DEBUG
        )
        return scheme if goes else None


def key_asked_for(received: bytearray) -> str | None:
    """Return the key of a redirect that is answered together with others, by its request's bytes.

    None for any other request, where the strategy counts one hit at a time, and for a key whose row
    another session keeps locked: none is to wait for that.
    """
    found = GET.match(received) if following().together else None
    key = key_of(found[1].decode("latin-1")) if found else None
    return key if key is not None and not views.gate.is_locked(key) else None


def location_of(found: ShortUrl) -> str | None:
    """Return the Location of a redirect; None for a target that Django has to refuse."""
    if PLAIN_URL.fullmatch(found.target_url):
        return found.target_url
    try:
        location = iri_to_uri(ascii_url(found.target_url))
    except ValidationError:
        return None
    return location if location.startswith(("https://", "http://")) else None


def may_ask(host: str) -> bool:
    """Return whether Django takes requests for this host."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)
