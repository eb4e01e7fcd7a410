"""The redirect, its preview, and the answers of links that lead nowhere."""

import logging
from collections.abc import Callable
from functools import lru_cache, wraps
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from shorturl import following
from shorturl.error_response import error_response
from shorturl.exceptions import Contended, Gone, NotForPrograms, RowLocked
from shorturl.links import validators
from shorturl.models import ShortUrl

# Browsers send one of these headers when they load a page that the user has not asked for yet.
PREFETCH = ("Sec-Purpose", "Purpose", "X-Moz")
NO_TARGET = "The target of this short URL is no web address."
MAX_LOCATIONS = 4_000  # remembered: encoding takes longer than the rest of a redirect
logger = logging.getLogger(__name__)


def redirect_headers(
    target_url: str, *, forward_query: bool, query: str, secure: bool
) -> dict[str, str]:
    """Return the headers of the 302 that leads to a target.

    With `forward_query` the target gets the short URL's `query`, as in the WSGI environ. `secure`
    is whether the request came by HTTPS. Raises ValidationError for a target that is no web
    address, which neither a form nor the API has written.
    """
    if forward_query and query:  # which are too many to remember
        location = location_of.__wrapped__(validators.with_query(target_url, query))
    else:
        location = location_of(target_url)
    headers = {
        "Location": location,
        # A redirect from a cache would be a hit that is not counted.
        "Cache-Control": "private, no-store",
        "Content-Length": "0",
        "Referrer-Policy": str(settings.SECURE_REFERRER_POLICY),
    }
    if secure and settings.SECURE_HSTS_SECONDS:
        headers["Strict-Transport-Security"] = hsts()
    return headers


@lru_cache(MAX_LOCATIONS)
def location_of(target_url: str) -> str:
    location = validators.location(target_url)
    if not location.lower().startswith(("https://", "http://")):
        raise ValidationError("The target is no web address.")
    return location


def hsts() -> str:
    """Return the header by which browsers use HTTPS alone, as Django's SecurityMiddleware does."""
    subdomains = "; includeSubDomains" if settings.SECURE_HSTS_INCLUDE_SUBDOMAINS else ""
    preload = "; preload" if settings.SECURE_HSTS_PRELOAD else ""
    return f"max-age={settings.SECURE_HSTS_SECONDS}{subdomains}{preload}"


def answer_dead_ends(
    view: Callable[[HttpRequest, str], HttpResponse],
) -> Callable[[HttpRequest, str], HttpResponse]:
    @wraps(view)
    def view_or_error(request: HttpRequest, key: str, **_: str) -> HttpResponse:
        try:
            return view(request, key)
        except ShortUrl.DoesNotExist as error:
            raise Http404 from error
        except Gone as error:
            return answer_gone(request, error)
        except (Contended, RowLocked):
            detail = "Too many requests follow this short URL at the same moment."
            busy = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
            busy["Retry-After"] = "1"
            return busy
        except ValidationError:
            return error_response(request, HTTPStatus.BAD_REQUEST, NO_TARGET)

    return view_or_error


@csrf_exempt
@require_safe
@answer_dead_ends
def resolve(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the target of `key` and count the hit, but not for HEAD.

    Neither HEAD nor a bot gets the target of a link with a limit: who has the target has used the
    link.
    """
    if any("prefetch" in request.headers.get(name, "").lower() for name in PREFETCH):
        return refuse_prefetch(request)
    if request.method == "HEAD":
        short_url = following.look_up(key)
    else:
        try:
            short_url = following.follow(key, following.classify(request.META))
        except NotForPrograms:
            return preview_of(request, following.look_up(key))
    headers = redirect_headers(
        short_url.target_url,
        forward_query=short_url.forward_query,
        query=request.META.get("QUERY_STRING", ""),
        secure=request.is_secure(),
    )
    if request.method == "HEAD" and short_url.max_hits:
        del headers["Location"]
    return HttpResponse(status=HTTPStatus.FOUND, headers=headers)


def refuse_prefetch(request: HttpRequest) -> HttpResponse:
    """Return a 503, so that the browser asks again when the user opens the link."""
    detail = "A short URL is followed when it is opened, and not in advance."
    response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
    log_response(detail, response=response, request=request, logger=logger, level="debug")
    return response


@csrf_exempt
@require_safe
@answer_dead_ends
def without_punctuation(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the short URL: chat programs make the punctuation after a link a part of it."""
    following.look_up(key)
    query = request.META.get("QUERY_STRING", "")
    path = reverse("resolve", args=[key]) + (query and f"?{query}")
    return HttpResponse(status=HTTPStatus.FOUND, headers={"Location": path})


@csrf_exempt
@require_safe
@answer_dead_ends
def preview(request: HttpRequest, key: str) -> HttpResponse:
    return preview_of(request, following.look_up(key))


def preview_of(request: HttpRequest, short_url: ShortUrl) -> HttpResponse:
    """Return the page that says where a link leads; with a limit it names the host alone."""
    context = {"short_url": short_url, "host": validators.target_host(short_url.target_url)}
    return render(request, "shorturl/preview.html", context)


def answer_gone(request: HttpRequest, error: Gone) -> HttpResponse:
    """Return the 410 of an expired or used-up link, as a page or in JSON."""
    response = HttpResponse(render_to_string("410.html", {"error": error}))
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        response = JsonResponse({"detail": str(error), "state": error.state})
    response.status_code = HTTPStatus.GONE
    response["Cache-Control"] = "private, no-store"  # a limit can be raised, and an expiry moved
    patch_vary_headers(response, ["Accept"])
    return response
