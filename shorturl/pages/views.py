"""The pages, and requests that cannot be read."""

from http import HTTPStatus
from io import BytesIO

import segno
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import (
    BadRequest,
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
)
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import get_script_prefix
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from shorturl.limits import owners, quotas
from shorturl.links.validators import location, target_host
from shorturl.pages import visit_pages
from shorturl.pages.error_response import error_response
from shorturl.pages.forms import CreateForm

LINKS_PATH = "/api/links"
BULK_PATH = f"{LINKS_PATH}/bulk"

# csrf_exempt disables the middleware, which would answer 403 to any unsafe method without a token.
# So a method that a view does not allow is answered with 405.


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@csrf_protect
def index(request: HttpRequest) -> HttpResponse:
    """Show the form of a new link; on POST create it, or show the form again with its errors."""
    if settings.SHORTURL_HOME_REDIRECT and not request.user.is_authenticated:
        return redirect(settings.SHORTURL_HOME_REDIRECT)
    form = None
    if settings.SHORTURL_PUBLIC_CREATE or request.user.is_authenticated:
        form = CreateForm(request.POST or None, own_host=request.get_host())
    if request.method != "POST":
        return show_form(request, form)
    if form is None:
        raise PermissionDenied("Log in to create a short URL.")
    refuse_other_encodings(request)
    if not form.create(quotas.spender_of(request.user, request), request.user.pk):
        response = show_form(request, form, form.status)
        for name, value in form.headers.items():
            response[name] = value
        return response
    key = form.link.key
    if owners.visible_to(request.user).filter(key=key).exists():
        ready = "Your short URL is ready." if form.is_new else "You already had this short URL."
        messages.success(request, ready)
        return see_other("stats", key)
    # A visitor cannot see the page of the short URL.
    messages.success(request, f"Your short URL is ready: {address(request, key)}")
    return see_other("index")


def see_other(to: str, *args: str) -> HttpResponse:
    """Redirect from a form, so that a reload of the next page does not send the form again."""
    response = redirect(to, *args)
    response.status_code = HTTPStatus.SEE_OTHER
    return response


def show_form(
    request: HttpRequest, form: CreateForm | None, status: int = HTTPStatus.OK
) -> HttpResponse:
    if form:
        form.focus_first_error()
    context = {"form": form, "host": request.get_host()}
    return render(request, "shorturl/index.html", context, status=status)


def refuse_other_encodings(request: HttpRequest) -> None:
    """Raise BadRequest for a form that is not UTF-8, which Django would read as Latin-1."""
    if request.content_type == "application/x-www-form-urlencoded":
        try:
            request.body.decode()
        except UnicodeDecodeError as error:
            raise BadRequest("The form is not encoded in UTF-8.") from error


@csrf_exempt
@require_safe
@never_cache
def stats(request: HttpRequest, key: str) -> HttpResponse:
    links = owners.visible_to(request.user).with_state()
    short_url = get_object_or_404(links, key=key, deleted_at=None)
    visits, status = visit_pages.visits_of(short_url, request.GET)
    context = {
        "short_url": short_url,
        "mine": short_url.owner_id is not None and short_url.owner_id == request.user.pk,
        "public": settings.SHORTURL_PUBLIC_STATS,
        "address": address(request, key),
        "target_href": location(short_url.target_url),
        "host": target_host(short_url.target_url),
        "may_see_target": owners.may_see_target(request.user, short_url),
        **visits,
    }
    return render(request, "shorturl/stats.html", context, status=status)


@csrf_exempt
@require_safe
def qr_code(request: HttpRequest, key: str) -> HttpResponse:
    get_object_or_404(owners.visible_to(request.user), key=key, deleted_at=None)
    svg = BytesIO()
    code = segno.make(address(request, key), micro=False)
    # Scanners need dark modules on light ones in any colour scheme, and a margin of four modules.
    code.save(svg, kind="svg", light="#fff", border=4, omitsize=True)
    return HttpResponse(svg.getvalue(), content_type="image/svg+xml")


def address(request: HttpRequest, key: str) -> str:
    return request.build_absolute_uri(get_script_prefix()) + key


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that cannot be read, as the project's handler400."""
    status, detail = HTTPStatus.BAD_REQUEST, "The request could not be read."
    if isinstance(exception, RequestDataTooBig):
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        detail = f"The body is too large: send at most {most:,} bytes."
    elif isinstance(exception, (TooManyFieldsSent, TooManyFilesSent)):
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        detail = "The request has too many fields: send only the fields of the form."
    elif isinstance(exception, (BadRequest, MultiPartParserError)):
        detail = str(exception)
    elif isinstance(exception, DisallowedHost):
        detail = "The Host header names no host of this service (ALLOWED_HOSTS)."
    return error_response(request, status, detail)
