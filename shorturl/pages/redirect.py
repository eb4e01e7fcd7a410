"""The redirect, its preview, and the answers of links that lead nowhere."""

import logging
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus

from django.core.exceptions import DisallowedRedirect, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from shorturl import following
from shorturl.exceptions import Banned, Contended, Gone, RowLocked
from shorturl.limits import bans
from shorturl.links.validators import location, target_host, with_query
from shorturl.models import ShortUrl
from shorturl.pages.error_response import error_response

# Browsers send one of them when they load a page that the user has not asked for yet.
PREFETCH = ("Sec-Purpose", "Purpose", "X-Moz")
logger = logging.getLogger(__name__)


def follow(request: HttpRequest, key: str) -> ShortUrl:
    """Count a hit, unless the server has counted it before Django; raise its error."""
    if following.FOUND not in request.META:
        return following.follow(key, following.hit_of(request.META))
    outcome = request.META[following.FOUND]
    if outcome is None:
        raise following.why_not_counted(key)
    if isinstance(outcome, Exception):
        raise outcome
    _, _, target_url, _ = outcome
    return ShortUrl(key=key, target_url=target_url)


def answers_dead_ends(
    view: Callable[[HttpRequest, str], HttpResponse],
) -> Callable[[HttpRequest, str], HttpResponse]:
    @wraps(view)
    def answered(request: HttpRequest, key: str, **_: str) -> HttpResponse:
        try:
            return view(request, key)
        except ShortUrl.DoesNotExist as error:
            raise Http404 from error
        except (Gone, Banned) as error:
            return dead_end(request, error)
        except (Contended, RowLocked):
            detail = "Too many requests follow this short URL at the same moment."
            busy = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
            busy["Retry-After"] = "1"
            return busy
        except ValidationError as error:  # the row was written by neither a form nor the API
            raise DisallowedRedirect(f"The target of {key!r} is not a URL.") from error

    return answered


def check_ban(short_url: ShortUrl) -> None:
    """Raise Banned for a target in a banned domain, ValidationError for one that is not a URL."""
    if domain := bans.banned(short_url.target_url, bans.known.domains):
        raise Banned(short_url.key, domain)


@csrf_exempt
@require_safe
@answers_dead_ends
def resolve(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the target of `key` and count the hit.

    HEAD does not count. For a link with a limit it does not show the target: a client that has the
    target has used the link. A hit on a banned target counts, because counting reads the target.
    """
    if any("prefetch" in request.headers.get(name, "").lower() for name in PREFETCH):
        return no_prefetch(request)
    short_url = follow(request, key) if request.method == "GET" else following.look_up(key)
    check_ban(short_url)
    target_url, query = short_url.target_url, request.META.get("QUERY_STRING", "")
    if query and following.forwards_query(key):
        target_url = with_query(target_url, query)
    response = HttpResponseRedirect(location(target_url))
    if request.method == "HEAD" and short_url.max_hits:
        del response["Location"]
    # A redirect from a cache would be a hit that is not counted.
    response["Cache-Control"] = "private, no-store"
    return response


def no_prefetch(request: HttpRequest) -> HttpResponse:
    """Return a 503 without the target, so that the browser asks again when the user does.

    It is no person's hit, and a client that has the target of a link with a limit has used it.
    """
    detail = "A short URL is followed when it is opened, and not in advance."
    response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
    log_response(detail, response=response, request=request, logger=logger, level="debug")
    return response


@csrf_exempt
@require_safe
@answers_dead_ends
def without_punctuation(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the short URL itself, if the key exists; this counts no hit.

    Chat programs make the punctuation after a link a part of it.
    """
    following.look_up(key)
    query = request.META.get("QUERY_STRING", "")
    return HttpResponseRedirect(reverse("resolve", args=[key]) + (query and f"?{query}"))


@csrf_exempt
@require_safe
@answers_dead_ends
def preview(request: HttpRequest, key: str) -> HttpResponse:
    short_url = following.look_up(key)
    check_ban(short_url)
    context = {"short_url": short_url, "host": target_host(short_url.target_url)}
    return render(request, "shorturl/preview.html", context)


def dead_end(request: HttpRequest, error: Gone | Banned) -> HttpResponse:
    """Return a page or JSON: 410 for an expired or used-up link, 403 for a banned target."""
    response: HttpResponse
    status, page = HTTPStatus.FORBIDDEN, "shorturl/banned.html"
    if isinstance(error, Gone):
        status, page = HTTPStatus.GONE, "410.html"
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        response = JsonResponse({"detail": str(error), "state": error.state}, status=status)
    else:
        response = HttpResponse(render_to_string(page, {"error": error}), status=status)
    # A limit can be raised, an expiry moved and a ban lifted.
    response["Cache-Control"] = "private, no-store"
    patch_vary_headers(response, ["Accept"])
    return response
