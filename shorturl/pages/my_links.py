"""The pages where users find, change and delete their own short URLs.

Each change is one statement with the owner in its condition. A check of the owner before it would
be a race condition.
"""

from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from shorturl import operations
from shorturl.exceptions import LimitTooLow
from shorturl.limits import bans
from shorturl.models import ShortUrl, ShortUrlQuerySet
from shorturl.pages.forms import ORDERS, FilterForm, ShortUrlForm, TargetForm
from shorturl.pages.views import address, refuse_other_encodings, see_other
from shorturl.visits import overview

PER_PAGE = 50


def mine(request: HttpRequest) -> ShortUrlQuerySet:
    return ShortUrl.objects.filter(owner_id=request.user.pk, deleted_at=None)


@csrf_exempt
@require_safe
@login_required
def index(request: HttpRequest) -> HttpResponse:
    """List the user's links that match the filters in the address, in the order of `show`.

    `show` can name a list of the overview. An invalid filter is a 422, and there is no list.
    """
    form = FilterForm(request.GET)
    context: dict[str, Any] = {
        "form": form,
        "create": ShortUrlForm(own_host=request.get_host(), auto_id="new_%s"),
        "host": request.get_host(),
        "address": address(request, ""),
    }
    if not form.is_valid():
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return render(request, "shorturl/my_links.html", context, status=status)
    filters = form.cleaned_data
    links = mine(request).matching(filters)
    context |= {
        "is_filtered": any(filters[name] for name in ("q", "tags", "state")),
        "used_tags": overview.used_tags(mine(request)),
    }
    if chosen := overview.LISTS.get(filters["show"]):
        context |= {
            "page": chosen.links(links)[: overview.SHOWN],
            "chosen": chosen,
            "considered": overview.CONSIDERED,
            "left_out": links.order_by("-id")[overview.CONSIDERED :][:1].exists(),
        }
    else:
        _, order = ORDERS[filters["show"]]
        ordered = links.with_state().order_by(order)
        context["page"] = Paginator(ordered, PER_PAGE).get_page(request.GET.get("page"))
    for short_url in context["page"]:
        short_url.state = bans.state_of(short_url)
    return render(request, "shorturl/my_links.html", context)


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@csrf_protect
def edit(request: HttpRequest, key: str) -> HttpResponse:
    short_url = get_object_or_404(mine(request), key=key)
    form = TargetForm(
        request.POST if request.method == "POST" else None,
        own_host=request.get_host(),
        initial=model_to_dict(short_url),
    )
    status = HTTPStatus.OK
    if request.method == "POST":
        refuse_other_encodings(request)
        if form.is_valid():
            try:
                changes = form.changes()
                if changes and not operations.change(mine(request).filter(key=key), **changes):
                    raise Http404
                messages.success(request, f"/{key} is changed.")
                return see_other("my_links")
            except LimitTooLow as error:
                form.add_error("max_hits", str(error))
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    form.focus_first_error()
    context = {"form": form, "short_url": short_url}
    return render(request, "shorturl/edit_link.html", context, status=status)


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@csrf_protect
def delete(request: HttpRequest, key: str) -> HttpResponse:
    """Ask for confirmation; on POST delete the link."""
    return ask_or_delete(request, [key])


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@csrf_protect
def delete_selected(request: HttpRequest) -> HttpResponse:
    """Ask for confirmation; on POST delete the links of all keys, or of none."""
    given = request.POST if request.method == "POST" else request.GET
    keys = sorted(set(given.getlist("key")))
    if len(keys) > overview.SHOWN:
        raise BadRequest(f"Select at most {overview.SHOWN} links.")
    if not keys:
        messages.info(request, "Select the links to delete first.")
        return see_other("my_links")
    return ask_or_delete(request, keys)


def ask_or_delete(request: HttpRequest, keys: list[str]) -> HttpResponse:
    if request.method == "POST":
        # In the order of the keys, so that two such requests do not deadlock. One statement could
        # lock the rows in any order, and on Citus it would need several nodes.
        with transaction.atomic():
            deleted = [key for key in keys if mine(request).filter(key=key).delete()[0]]
        if not deleted:
            raise Http404
        what = f"/{deleted[0]} is" if len(deleted) == 1 else f"{len(deleted)} links are"
        messages.success(request, f"{what} deleted.")
        return see_other("my_links")
    links = mine(request).filter(key__in=keys).order_by("key")
    if not links:
        raise Http404
    return render(request, "shorturl/delete_links.html", {"links": links})
