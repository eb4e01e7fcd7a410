"""The pages, and the redirect."""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from io import BytesIO
from typing import Any

import segno
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import (
    BadRequest,
    DisallowedRedirect,
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
    ValidationError,
)
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from shorturl import operations, owners, quotas, visit_pages
from shorturl.exceptions import Gone, RowLocked, TooManyCreates
from shorturl.forms import ShortUrlForm
from shorturl.key_gate import KeyGate
from shorturl.keys import violates
from shorturl.kinds_of_visits import KindsOfVisits
from shorturl.models import OWNER_CONSTRAINT, ShortUrl
from shorturl.validators import ascii_url
from shorturl.visits import visit_of

FOUND = "shorturl.found"  # in the WSGI environ: what follow() has returned or raised
BULK_PATH = "/api/links/bulk"
gate = KeyGate()
kinds = KindsOfVisits()

# csrf_exempt takes a view from the middleware, which would answer 403 to any method that it has
# to protect; so a method that a view does not have is answered 405, token or no token.


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@csrf_protect
def index(request: HttpRequest) -> HttpResponse:
    """Show the form; when it was filled in, make the short URL and go to its page."""
    allowed = settings.SHORTURL_PUBLIC_CREATE or request.user.is_authenticated
    if request.method == "POST":
        if not allowed:
            return log_in_first(request, "Log in to create a short URL.")
        return submit(request)
    form = ShortUrlForm(own_host=request.get_host()) if allowed else None
    return show_form(request, form, HTTPStatus.OK)


def submit(request: HttpRequest) -> HttpResponse:
    """Create a short URL, or show the form again and what to change.

    The way out is a redirect, so that a reload of the page that follows makes nothing twice.
    """
    refuse_other_encodings(request)
    form = ShortUrlForm(request.POST, own_host=request.get_host())
    if not form.is_valid():
        return show_form(request, form, HTTPStatus.UNPROCESSABLE_ENTITY)
    try:
        spender = quotas.spender_of(request.user, request)

        def create() -> tuple[ShortUrl, bool]:
            short_url, created = form.save(request.user.pk)
            quotas.give_back(spender, links=0 if created else 1)
            return short_url, created

        short_url, created = quotas.spend(spender, create)
    except ShortUrl.KeyTaken as error:
        form.add_error("key", f"{error} Choose another one, or leave it empty for a random key.")
        return show_form(request, form, HTTPStatus.CONFLICT)
    except ShortUrl.KeySpaceExhausted as error:
        form.add_error(None, f"{error} Choose a custom key, or try again later.")
        return show_form(request, form, HTTPStatus.SERVICE_UNAVAILABLE)
    except TooManyCreates as error:
        form.add_error(None, str(error))
        response = show_form(request, form, HTTPStatus.TOO_MANY_REQUESTS)
        for name, value in error.headers.items():
            response[name] = value
        return response
    except IntegrityError as error:
        if not violates(error, OWNER_CONSTRAINT):
            raise
        return log_in_first(request, "Your account was removed meanwhile; nothing was created.")
    if owners.visible_to(request.user).filter(key=short_url.key).exists():
        ready = "Your short URL is ready." if created else "You have had this short URL before."
        messages.success(request, ready)
        return see_other("stats", short_url.key)
    # Of a visitor, who will not see its hits.
    messages.success(request, f"Your short URL is ready: {address(request, short_url.key)}")
    return see_other("index")


def log_in_first(request: HttpRequest, reason: str) -> HttpResponse:
    """Return the page, 403, that says why somebody may not create, with the way to log in."""
    context = {"exception": reason, "log_in": True}
    return render(request, "403.html", context, status=HTTPStatus.FORBIDDEN)


def see_other(to: str, *args: str) -> HttpResponse:
    """Return the answer to a form that has done its work: the way to the page named `to`."""
    response = redirect(to, *args)
    response.status_code = HTTPStatus.SEE_OTHER
    return response


def show_form(request: HttpRequest, form: ShortUrlForm | None, status: int) -> HttpResponse:
    """Return the page with the form, or, without one, with a way to log in."""
    if form:
        form.focus_first_error()
    context = {"form": form, "host": request.get_host()}
    return render(request, "shorturl/index.html", context, status=status)


def refuse_other_encodings(request: HttpRequest) -> None:
    """Raise BadRequest for a form that is not UTF-8, which Django reads as if it were Latin-1."""
    if request.content_type == "application/x-www-form-urlencoded":
        try:
            request.body.decode()
        except UnicodeDecodeError as error:
            raise BadRequest("The form is not encoded in UTF-8.") from error


def follow(key: str, environ: Mapping[str, Any]) -> ShortUrl:
    """Return the short URL of `key`, with this hit counted, as operations.resolve() does.

    Unless visits are off, this one is recorded; `environ` says of which kind it is. Raises
    RowLocked when too many requests wait for its row.
    """
    if not settings.SHORTURL_VISITS:
        return gate.call(operations.resolve, key)
    visit = kinds.bounded(key, visit_of(environ))
    short_url = gate.call(partial(operations.follow, visit=visit), key)
    kinds.add(key, visit)
    return short_url


def follow_together(
    key: str, environs: Sequence[Mapping[str, Any]]
) -> Sequence[ShortUrl | BaseException]:
    """Return what follow() returns or raises for each of the requests, which are counted as one.

    Raises what it raises for all of them.
    """
    if len(environs) == 1:
        return [follow(key, environs[0])]
    if not settings.SHORTURL_VISITS:
        return gate.call(partial(operations.follow_together, visits=environs), key)
    visits = [kinds.bounded(key, visit_of(environ)) for environ in environs]
    outcomes = gate.call(partial(operations.follow_together, visits=visits), key)
    for visit, outcome in zip(visits, outcomes, strict=True):
        if isinstance(outcome, ShortUrl):
            kinds.add(key, visit)
    return outcomes


def found(request: HttpRequest) -> ShortUrl | None:
    """Return or raise what follow() did before Django saw the request; None if it did nothing."""
    outcome = request.META.get(FOUND)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


@csrf_exempt
@require_safe
def resolve(request: HttpRequest, key: str) -> HttpResponse:
    """Redirect to the target of `key` and count the hit; HEAD redirects without counting."""
    try:
        if request.method == "GET":
            short_url = found(request) or follow(key, request.META)
        else:
            short_url = operations.look_up(key)
    except ShortUrl.DoesNotExist as error:
        raise Http404 from error
    except Gone as error:
        return gone(request, error)
    except (ShortUrl.Contended, RowLocked):
        reason = "Too many requests follow this short URL at the same moment."
        return HttpResponse(
            render_to_string("503.html", {"reason": reason}),
            status=HTTPStatus.SERVICE_UNAVAILABLE,
            headers={"Retry-After": "1"},
        )
    try:
        location = ascii_url(short_url.target_url)
    except ValidationError as error:  # of a row that neither a form nor the API has written
        raise DisallowedRedirect(f"The target of {key!r} is not a URL.") from error
    response = HttpResponseRedirect(location)
    # A redirect out of a cache is a hit that nobody counts.
    response["Cache-Control"] = "private, no-store"
    return response


def gone(request: HttpRequest, error: Gone) -> HttpResponse:
    """Say that a short URL has expired or is used up, as a page or, to who prefers it, as JSON.

    A limit can be raised and an expiry moved, so that no cache may keep the answer either.
    """
    response: HttpResponse
    if request.get_preferred_type(["text/html", "application/json"]) == "application/json":
        response = JsonResponse({"detail": str(error), "state": error.state})
    else:
        response = HttpResponse(render_to_string("410.html", {"gone": error}))
    response.status_code = HTTPStatus.GONE
    response["Cache-Control"] = "private, no-store"
    patch_vary_headers(response, ["Accept"])
    return response


@csrf_exempt
@require_safe
@never_cache
def stats(request: HttpRequest, key: str) -> HttpResponse:
    """Show where `key` leads, and who follows it, when and from where, to whoever may know."""
    links = owners.visible_to(request.user).with_state()
    short_url = get_object_or_404(links, key=key, deleted_at=None)
    visits, status = visit_pages.visits_of(short_url, request.GET)
    context = {
        "short_url": short_url,
        "mine": short_url.owner_id is not None and short_url.owner_id == request.user.pk,
        "public": settings.SHORTURL_PUBLIC_STATS,
        "address": address(request, key),
        "target_href": ascii_url(short_url.target_url),
        **visits,
    }
    return render(request, "shorturl/stats.html", context, status=status)


@csrf_exempt
@require_safe
def qr_code(request: HttpRequest, key: str) -> HttpResponse:
    """Return the short URL as a QR code, to show and to print."""
    get_object_or_404(owners.visible_to(request.user), key=key, deleted_at=None)
    svg = BytesIO()
    code = segno.make(address(request, key), micro=False)
    # Scanners need dark on light, whatever colours the page has, and a margin of four modules.
    code.save(svg, kind="svg", light="#fff", border=4, omitsize=True)
    return HttpResponse(svg.getvalue(), content_type="image/svg+xml")


def address(request: HttpRequest, key: str) -> str:
    """Return the short URL as people pass it on, with scheme and host."""
    return request.build_absolute_uri(reverse("resolve", args=[key]))


def longest_body(request: HttpRequest) -> int:
    """Return how many bytes the body of a request to this path may have."""
    bulk = request.path_info == BULK_PATH
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE if bulk else settings.SHORTURL_BODY_MAX


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what cannot be read: 413 when it is too large, else 400; the project's handler400."""
    status, detail = HTTPStatus.BAD_REQUEST, "The request could not be read."
    if isinstance(exception, RequestDataTooBig):
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        detail = f"The body is too large: send at most {longest_body(request):,} bytes."
    elif isinstance(exception, (TooManyFieldsSent, TooManyFilesSent)):
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        detail = "The request has too many fields: send those of the form only."
    elif isinstance(exception, (BadRequest, MultiPartParserError)):
        detail = str(exception)
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": detail}, status=status)
    context = {"status": status, "detail": detail}
    return HttpResponse(render_to_string("400.html", context), status=status)
