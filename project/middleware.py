"""Middleware: common headers, and a short way for redirects and API calls."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port, validate_host
from django.urls import resolve

from project.unavailable import make_unavailable_response
from shorturl.links.keys import key_of
from shorturl.links.validators import HOST_MAX_LENGTH
from shorturl.outages import is_outage
from shorturl.pages import redirect

MAX_HOST_LENGTH = HOST_MAX_LENGTH + len(".:65535")
# They tell a browser how to treat a document. A redirect has none, and each takes time.
HEADERS_OF_DOCUMENTS = (
    "Content-Security-Policy",
    "Content-Type",
    "Cross-Origin-Opener-Policy",
    "X-Content-Type-Options",
    "X-Frame-Options",
)
View = Callable[[HttpRequest], HttpResponse]


def finish_responses(get_response: View) -> View:
    """Forbid to store a response, unless it has a Cache-Control; drop headers that have no use.

    A path changes its meaning when a link is made or deleted. A stored 404 would hide a new link,
    and a stored QR code would outlive its link. Static files have a Cache-Control.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.setdefault("Cache-Control", "no-store")
        if response.status_code in (HTTPStatus.FOUND, HTTPStatus.MOVED_PERMANENTLY):
            for name in HEADERS_OF_DOCUMENTS:
                del response[name]
        if request.method == "HEAD" and not response.streaming:
            response.content = b""  # gunicorn would log a warning; Content-Length stays
        return response

    return middleware


def add_content_security_policy(get_response: View) -> View:
    """Add the Content-Security-Policy, except to the JSON of calls without a session.

    django-csp's own csp_exempt() saves no time: the policy is written, and then dropped.
    """
    add_policy: Any = CSPMiddleware(get_response)

    def middleware(request: HttpRequest) -> HttpResponse:
        if is_call_without_session(request):
            return get_response(request)
        response: HttpResponse = add_policy(request)
        return response

    return middleware


def is_allowed(host: str) -> bool:
    """Return whether a Host header names one of ALLOWED_HOSTS, and is not too long for a host."""
    if len(host) > MAX_HOST_LENGTH:
        return False
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def use_host_of_target(get_response: View) -> View:
    """Use the host of a target in absolute form, such as http://example.com/key, for the Host.

    In environ RAW_URI is the target for gunicorn's WSGI workers. project/serving sets the header
    itself, and no RAW_URI.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        target = request.META.get("RAW_URI", "/")
        if "HTTP_HOST" in request.META and not target.startswith("/"):
            request.META["HTTP_HOST"] = urlsplit(target).netloc
        return get_response(request)

    return middleware


def refuse_other_hosts(get_response: View) -> View:
    """Refuse a request for a host that is not of ALLOWED_HOSTS with a 400.

    Django checks the host where get_host() is called, and a static file is answered before that.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        if "HTTP_HOST" in request.META and not is_allowed(request.META["HTTP_HOST"]):
            raise DisallowedHost("The Host header is not of ALLOWED_HOSTS.")
        return get_response(request)

    return middleware


def answer_redirects_and_calls(get_response: View) -> View:
    """Call the view of a redirect, or of an API call without a session, at once.

    Neither needs the middleware that follows: sessions, CSRF tokens, messages. The views of the API
    authenticate their callers.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        key = key_of(request.path_info)
        if key is None and not is_call_without_session(request):
            return get_response(request)
        try:
            if key is not None:
                response: HttpResponse = redirect.resolve(request, key=key)
            else:
                request.user = AnonymousUser()
                match = resolve(request.path_info)
                request.resolver_match = match
                response = match.func(request, *match.args, **match.kwargs)
        except Exception as error:
            # Django calls process_exception() of a middleware only for the views of pages.
            if not is_outage(error):
                raise
            response = make_unavailable_response(request, error)
        return response

    return middleware


def is_call_without_session(request: HttpRequest) -> bool:
    has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
    return request.path_info.startswith("/api/links") and not has_session
