"""The redirect, its preview, and the answers of links that lead nowhere."""

import logging
from collections.abc import Callable
from functools import wraps
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
from shorturl.visits.classification import classify_visit

# A browser sends one of these when it loads a page that the user has not asked for yet.
PREFETCH = ("Sec-Purpose", "Purpose", "X-Moz")
NO_TARGET = "The target of this short URL is no web address."
logger = logging.getLogger(__name__)


def find_location(target_url: str, *, forward_query: bool, query: str) -> str:
    """Return the Location of the redirect that leads to a target.

    With `forward_query` the target gets the short URL's `query`, as in the WSGI environ. Raises
    ValidationError for a target that is no web address: only SQL can have stored it.
    """
    if forward_query and query:
        target_url = validators.with_query(target_url, query)
    return validators.location(target_url)


def headers_besides_location(*, secure: bool) -> dict[str, str]:
    """Return the other headers of a redirect; `secure` is whether the request came by HTTPS."""
    headers = {
        # A redirect from a cache would be a hit that is not counted.
        "Cache-Control": "private, no-store",
        "Content-Length": "0",
        "Referrer-Policy": str(settings.SECURE_REFERRER_POLICY),
    }
    if secure and settings.SECURE_HSTS_SECONDS:
        headers["Strict-Transport-Security"] = f"max-age={settings.SECURE_HSTS_SECONDS}"
    return headers


def short_url_view(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate a view of a short URL: GET and HEAD alone, and an answer if it leads nowhere."""

    @csrf_exempt  # else a POST would get a 403 for its missing token instead of the 405
    @require_safe
    @wraps(view)
    def view_or_error(request: HttpRequest, **parameters: str) -> HttpResponse:
        try:
            return view(request, **parameters)
        except ShortUrl.DoesNotExist as error:
            raise Http404 from error
        except Gone as error:
            return answer_gone(request, error)
        except (Contended, RowLocked):
            detail = "Too many requests follow this short URL at the same moment."
            response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
            response["Retry-After"] = "1"
            return response
        except ValidationError:
            return error_response(request, HTTPStatus.BAD_REQUEST, NO_TARGET)

    return view_or_error


@short_url_view
def resolve(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the target of `key`, and count the hit. HEAD redirects, too, and counts nothing.

    A client that has the target of a link with a limit has used it. So such a link gives it only
    with a hit that is counted: HEAD gets no Location, and a bot gets the preview.
    """
    if any("prefetch" in request.headers.get(name, "").lower() for name in PREFETCH):
        return refuse_prefetch(request)
    if request.method == "HEAD":
        short_url = following.look_up(key)
    else:
        try:
            short_url = following.follow(key, classify_visit(request.META))
        except NotForPrograms:
            return preview(request, key=key)
    headers = headers_besides_location(secure=request.is_secure())
    location = find_location(
        short_url.target_url,
        forward_query=short_url.forward_query,
        query=request.META.get("QUERY_STRING", ""),
    )
    if request.method != "HEAD" or not short_url.max_hits:
        headers["Location"] = location
    return HttpResponse(status=HTTPStatus.FOUND, headers=headers)


def refuse_prefetch(request: HttpRequest) -> HttpResponse:
    """Return a 503, so that the browser asks again when the user opens the link."""
    detail = "A short URL is followed when it is opened, and not in advance."
    response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
    # Django would log a 503 as an error.
    log_response(detail, response=response, request=request, logger=logger, level="debug")
    return response


@short_url_view
def drop_punctuation(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the short URL: chat programs make the punctuation after a link a part of it."""
    following.look_up(key)  # raises DoesNotExist or Gone
    query = request.META.get("QUERY_STRING", "")
    location = reverse("resolve", args=[key]) + (query and f"?{query}")
    return HttpResponse(status=HTTPStatus.FOUND, headers={"Location": location})


@short_url_view
def preview(request: HttpRequest, key: str) -> HttpResponse:
    """Return the page that says where a link leads; of a link with a limit, only to which host."""
    short_url = following.look_up(key)
    context = {"short_url": short_url, "host": validators.target_host(short_url.target_url)}
    return render(request, "shorturl/preview.html", context)


def answer_gone(request: HttpRequest, error: Gone) -> HttpResponse:
    """Return the 410 of an expired or used-up link, as a page or in JSON."""
    response = HttpResponse(render_to_string("410.html", {"error": error}))
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        response = JsonResponse({"detail": str(error), "state": error.state})
    response.status_code = HTTPStatus.GONE
    patch_vary_headers(response, ["Accept"])
    return response
