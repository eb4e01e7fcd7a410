"""The first page, the page of a short URL, and the answer to what cannot be read."""

import mimetypes
from collections import Counter
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import segno
from django.conf import settings
from django.contrib import messages
from django.core import exceptions
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from shorturl.error_response import error_response
from shorturl.limits import owners, quotas
from shorturl.links import keys
from shorturl.links.validators import location, target_host
from shorturl.models import ShortUrl, ShortUrlQuerySet
from shorturl.pages import visit_pages
from shorturl.pages.forms import CreateForm, QrCodeForm

MAX_LINKS_OF_TAGS = 1_000  # the newest links, whose tags are suggested; some 2 ms


def form_page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate the view of a form: GET shows it, and POST sends it.

    The check for CSRF is not the middleware's: its 403 would come before the 405 for PUT.
    """

    @wraps(view)
    def read_form(request: HttpRequest, **parameters: str) -> HttpResponse:
        if request.content_type == "application/x-www-form-urlencoded":
            try:
                request.body.decode()  # which Django would read as Latin-1
            except UnicodeDecodeError as error:
                raise BadRequest("The form is not encoded in UTF-8.") from error
        return view(request, **parameters)

    methods = require_http_methods(["GET", "HEAD", "POST"])
    return csrf_exempt(methods(csrf_protect(read_form)))


@form_page
def index(request: HttpRequest) -> HttpResponse:
    """Show the form of a new link; on POST create it, or show the form again with its errors."""
    is_anonymous = not request.user.is_authenticated
    if is_anonymous and settings.SHORTURL_HOME_REDIRECT:
        return redirect(settings.SHORTURL_HOME_REDIRECT)
    if is_anonymous and not settings.SHORTURL_PUBLIC_CREATE:
        if request.method == "POST":
            raise PermissionDenied("Log in to create a short URL.")
        return render(request, "shorturl/index.html")
    form = CreateForm(request.POST or None, own_host=request.get_host())
    spender = quotas.spender_of(request.user, request)
    if request.method != "POST" or not form.create(spender, request.user.pk):
        form.focus_first_error()
        return render_create_form(request, "shorturl/index.html", form=form)
    key = form.link.key
    if settings.SHORTURL_PUBLIC_STATS or request.user.is_authenticated:  # who may see its page
        ready = "Your short URL is ready." if form.is_new else "You already had this short URL."
        messages.success(request, f"{ready}{form.warning()}")
        return see_other("stats", key)
    address = keys.short_url(request, key)
    messages.success(request, f"Your short URL is ready: {address}{form.warning()}")
    return see_other("index")


def see_other(to: str, *args: str) -> HttpResponse:
    """Redirect from a form, so that a reload of the next page does not send the form again."""
    return HttpResponseRedirect(resolve_url(to, *args), status=HTTPStatus.SEE_OTHER)


def render_create_form(
    request: HttpRequest, template: str, *, form: CreateForm, **context: Any
) -> HttpResponse:
    """Render a page with the form, whose error decides the status."""
    context = {
        "form": form,
        "host": request.get_host(),
        "used_tags": used_tags(owners.own_links(request.user)),
        **context,
    }
    status = form.status if request.method == "POST" else HTTPStatus.OK
    response = render(request, template, context, status=status)
    for name, value in form.headers.items():
        response[name] = value
    return response


def used_tags(links: ShortUrlQuerySet) -> list[str]:
    """Return the tags of the newest links, the most used first."""
    newest = links.order_by("-id").values_list("tags", flat=True)[:MAX_LINKS_OF_TAGS]
    counts = Counter(chain.from_iterable(tags or [] for tags in newest))
    return [tag for tag, _ in counts.most_common()]


@csrf_exempt
@require_safe
def stats(request: HttpRequest, key: str) -> HttpResponse:
    links = owners.visible_to(request.user).with_state()
    short_url = get_object_or_404(links, key=key, deleted_at=None)
    try:
        href, host = location(short_url.target_url), target_host(short_url.target_url)
    except exceptions.ValidationError:  # only SQL has stored such a target
        href = host = ""
    visits = visit_pages.visits_context(ShortUrl.objects.filter(key=key), request.GET)
    context = {
        "short_url": short_url,
        "mine": short_url.owner_id is not None and short_url.owner_id == request.user.pk,
        "public": settings.SHORTURL_PUBLIC_STATS,
        "address": keys.short_url(request, key),
        "target_href": href,
        "host": host,
        "qr_form": QrCodeForm(),
        "may_see_target": owners.may_see_target(request.user, short_url),
        **visits,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if visits["form"].errors else HTTPStatus.OK
    return render(request, "shorturl/stats.html", context, status=status)


@csrf_exempt
@require_safe
def qr_code(request: HttpRequest, key: str) -> HttpResponse:
    svg = BytesIO()
    # Scanners need dark modules on light ones in any colour scheme, and a margin of four modules.
    make_qr_code(request, key).save(svg, kind="svg", light="#fff", border=4, omitsize=True)
    return HttpResponse(svg.getvalue(), content_type="image/svg+xml")


@csrf_exempt
@require_safe
def qr_code_file(request: HttpRequest, key: str) -> HttpResponse:
    """Return the QR code as PNG, to be saved; each of its modules is a number of whole pixels."""
    code = make_qr_code(request, key)
    form = QrCodeForm({**QrCodeForm.DEFAULTS, **request.GET.dict()})
    if not form.is_valid():
        name, faults = next(iter(form.errors.items()))
        raise BadRequest(f"{form[name].label}: {faults[0]}")
    border = form.cleaned_data["border"]
    modules, _ = code.symbol_size(border=border)
    png = BytesIO()
    code.save(png, kind="png", border=border, scale=max(1, form.cleaned_data["size"] // modules))
    disposition = {"Content-Disposition": f'attachment; filename="{key}.png"'}
    return HttpResponse(png.getvalue(), content_type="image/png", headers=disposition)


def make_qr_code(request: HttpRequest, key: str) -> segno.QRCode:
    """Return the QR code of a link that the user may see, or raise a 404."""
    get_object_or_404(owners.visible_to(request.user), key=key, deleted_at=None)
    return segno.make_qr(keys.short_url(request, key))


@csrf_exempt
@require_safe
def logo(request: HttpRequest) -> HttpResponse:
    """Return the operator's logo, a file that is in no folder of static files."""
    try:
        content = Path(settings.SHORTURL_LOGO).read_bytes()
    except OSError as error:  # without the setting, the path is that of a directory
        raise Http404 from error
    return HttpResponse(
        content,
        content_type=mimetypes.guess_type(settings.SHORTURL_LOGO)[0],
        headers={"Cache-Control": "public, max-age=86400"},
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that cannot be read, as the project's handler400."""
    status = HTTPStatus.BAD_REQUEST
    detail = "The request could not be read."
    match exception:
        case exceptions.RequestDataTooBig():
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
            detail = f"The body is too large: send at most {limit:,} bytes."
        case exceptions.TooManyFieldsSent() | exceptions.TooManyFilesSent():
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            detail = "The request has too many fields: send only the fields of the form."
        case exceptions.DisallowedHost():
            detail = "The Host header names no host of this service (ALLOWED_HOSTS)."
        case BadRequest() | MultiPartParserError():
            detail = str(exception)
    return error_response(request, status, detail)
