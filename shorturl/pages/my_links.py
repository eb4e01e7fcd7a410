"""The pages where users create, find, change and delete their own short URLs.

Each change is one statement with the owner in its condition. A check of the owner before it would
be a race condition.
"""

import csv
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from shorturl import operations
from shorturl.exceptions import InputError
from shorturl.limits import owners, quotas
from shorturl.links import keys
from shorturl.models import ShortUrlQuerySet
from shorturl.pages import visit_pages
from shorturl.pages.forms import ORDERS, CreateForm, EditForm, FilterForm
from shorturl.pages.views import form_page, render_create_form, see_other, used_tags
from shorturl.transfer.link_files import without_formula
from shorturl.visits import statistics

PER_PAGE = 50
MAX_SELECTED = 100
# The columns of the list as CSV, after the short URL.
TIMES = ("created_at", "expires_at")
COLUMNS = ("key", "target_url", "title", "tags", "hits", "last_week", "max_hits", "state", *TIMES)


@form_page
@login_required
def index(request: HttpRequest) -> HttpResponse:
    """List the user's links that match the filters in the address; on POST create a link first."""
    data = request.POST if request.method == "POST" else None
    form = CreateForm(data, own_host=request.get_host(), auto_id="new_%s")
    if request.method == "POST":
        if form.create(quotas.spender_of(request.user, request), request.user.pk):
            address = keys.short_url(request, form.link.key)
            messages.success(request, f"Your short URL is ready: {address}{form.warning()}")
            return see_other("my_links")
        form.focus_first_error()
    filters = FilterForm(request.GET)
    context: dict[str, Any] = {}
    if filters.is_valid():
        pages = Paginator(sorted_links(request, filters), PER_PAGE)
        page = pages.get_page(request.GET.get("page"))
        context = {"page": page, "is_filtered": filters.is_filtered}
    response = render_create_form(
        request,
        "shorturl/my_links.html",
        form=form,
        filters=filters,
        address=keys.short_url(request, ""),
        **context,
    )
    if filters.errors:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


def found_links(request: HttpRequest, filters: FilterForm) -> ShortUrlQuerySet:
    """Return the user's links that match; raise BadRequest if a filter is invalid."""
    if not filters.is_valid():
        raise BadRequest(next(iter(filters.errors.values()))[0])
    return owners.own_links(request.user).matching(filters.cleaned_data, request.get_host())


def sorted_links(request: HttpRequest, filters: FilterForm) -> ShortUrlQuerySet:
    """Return found_links() in the chosen order, with `state` and `last_week`."""
    links = statistics.with_last_week(found_links(request, filters).with_state())
    _title, column = ORDERS[filters.cleaned_data["order"]]
    return links.order_by(column, "-id")


@csrf_exempt
@require_safe
@login_required
def stats(request: HttpRequest) -> HttpResponse:
    """Show the visits of all links that the list finds, such as those with a tag."""
    filters = FilterForm(request.GET)
    context = visit_pages.visits_context(found_links(request, filters), request.GET)
    context |= {"filters": filters.cleaned_data, "is_filtered": filters.is_filtered}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if context["form"].errors else HTTPStatus.OK
    return render(request, "shorturl/found_stats.html", context, status=status)


@csrf_exempt
@require_safe
@login_required
def save(request: HttpRequest) -> HttpResponse:
    """Return the links that the list finds as CSV, in its order."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="links.csv"'
    writer = csv.writer(response, lineterminator="\n")
    writer.writerow(["short_url", *COLUMNS])
    address = keys.short_url(request, "")
    for link in sorted_links(request, FilterForm(request.GET)).values(*COLUMNS):
        link["tags"] = ",".join(link["tags"] or [])
        for name in TIMES:
            link[name] = link[name] and link[name].isoformat()
        writer.writerow([address + link["key"], *map(without_formula, link.values())])
    return response


@form_page
@login_required
def edit(request: HttpRequest, key: str) -> HttpResponse:
    own_links = owners.own_links(request.user)
    link = get_object_or_404(own_links, key=key)
    data = request.POST if request.method == "POST" else None
    form = EditForm(data, own_host=request.get_host(), instance=link)
    if form.is_valid():
        try:
            changes = form.changed_values()
            if changes and not operations.change(own_links.filter(key=key), **changes):
                raise Http404
            messages.success(request, f"/{key} is changed.")
            return see_other("my_links")
        except InputError as error:
            form.add_error(error.field, error.message)
    form.focus_first_error()
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    context = {"form": form, "key": key, "used_tags": used_tags(own_links)}
    return render(request, "shorturl/edit_link.html", context, status=status)


@form_page
@login_required
def delete(request: HttpRequest, key: str = "") -> HttpResponse:
    """Ask for confirmation; on POST delete the user's link, or those that were selected."""
    sent = (request.POST if request.method == "POST" else request.GET).getlist("key")
    selected = [key] if key else sorted(filter(keys.CUSTOM_KEY.fullmatch, {*sent}))
    if len(selected) > MAX_SELECTED:
        raise BadRequest(f"Select at most {MAX_SELECTED} links.")
    if not selected:
        messages.info(request, "Select the links to delete first.")
        return see_other("my_links")
    own_links = owners.own_links(request.user)
    if request.method == "POST":
        # In the order of the keys, so that two such requests do not deadlock. One statement could
        # lock the rows in any order, and on a cluster needs several nodes.
        with transaction.atomic():
            deleted = [key for key in selected if own_links.filter(key=key).delete()[0]]
        if not deleted:
            raise Http404
        links_are = f"/{deleted[0]} is" if len(deleted) == 1 else f"{len(deleted)} links are"
        messages.success(request, f"{links_are} deleted.")
        return see_other("my_links")
    links = own_links.filter(key__in=selected).order_by("key")
    if not links:
        raise Http404
    return render(request, "shorturl/delete_links.html", {"links": links})
