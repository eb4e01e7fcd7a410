"""The pages where users create, find, change and delete their own short URLs.

Each change is one statement with the owner in its condition. A check of the owner before it would
be a race condition.
"""

from collections import Counter
from http import HTTPStatus
from itertools import chain
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from shorturl import operations
from shorturl.exceptions import InputError
from shorturl.limits import quotas
from shorturl.links import keys
from shorturl.models import ShortUrl, ShortUrlQuerySet
from shorturl.pages.forms import ORDERS, CreateForm, EditForm, FilterForm
from shorturl.pages.views import form_page, render_create_form, see_other

PER_PAGE = 50
MAX_SELECTED = 100
MAX_LINKS_OF_TAGS = 1_000  # the newest links, whose tags are suggested; some 2 ms


def own_links(request: HttpRequest) -> ShortUrlQuerySet:
    return ShortUrl.objects.filter(owner_id=request.user.pk, deleted_at=None)


@form_page
@login_required
def index(request: HttpRequest) -> HttpResponse:
    """List the user's links that match the filters in the address; on POST create a link first."""
    data = request.POST if request.method == "POST" else None
    form = CreateForm(data, own_host=request.get_host(), auto_id="new_%s")
    if request.method == "POST":
        if form.create(quotas.spender_of(request.user, request), request.user.pk):
            address = keys.short_url(request, form.link.key)
            messages.success(request, f"Your short URL is ready: {address}")
            return see_other("my_links")
        form.focus_first_error()
    filters = FilterForm(request.GET)
    context = list_context(request, filters.cleaned_data) if filters.is_valid() else {}
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


def list_context(request: HttpRequest, filters: dict[str, Any]) -> dict[str, Any]:
    """Return what the template needs to list the user's links that match the filters."""
    links = own_links(request).matching(filters).with_state()
    _title, column = ORDERS[filters["order"]]
    page = Paginator(links.order_by(column, "-id"), PER_PAGE).get_page(request.GET.get("page"))
    return {
        "page": page,
        "is_filtered": any(filters[name] for name in ("q", "tags", "state")),
        "used_tags": used_tags(own_links(request)),
    }


def used_tags(links: ShortUrlQuerySet) -> list[str]:
    """Return the tags of the newest links, the most used first."""
    newest = links.order_by("-id").values_list("tags", flat=True)[:MAX_LINKS_OF_TAGS]
    counts = Counter(chain.from_iterable(tags or [] for tags in newest))
    return [tag for tag, _ in counts.most_common()]


@form_page
@login_required
def edit(request: HttpRequest, key: str) -> HttpResponse:
    link = get_object_or_404(own_links(request), key=key)
    data = request.POST if request.method == "POST" else None
    form = EditForm(data, own_host=request.get_host(), instance=link)
    if form.is_valid():
        try:
            changes = form.changed_values()
            if changes and not operations.change(own_links(request).filter(key=key), **changes):
                raise Http404
            messages.success(request, f"/{key} is changed.")
            return see_other("my_links")
        except InputError as error:
            form.add_error(error.field, error.message)
    form.focus_first_error()
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return render(request, "shorturl/edit_link.html", {"form": form, "key": key}, status=status)


@form_page
@login_required
def delete(request: HttpRequest, key: str = "") -> HttpResponse:
    """Ask for confirmation; on POST delete the user's link, or those that were selected."""
    parameters = request.POST if request.method == "POST" else request.GET
    selected = [key] if key else sorted(set(parameters.getlist("key")))
    if len(selected) > MAX_SELECTED:
        raise BadRequest(f"Select at most {MAX_SELECTED} links.")
    if not selected:
        messages.info(request, "Select the links to delete first.")
        return see_other("my_links")
    if request.method == "POST":
        # In the order of the keys, so that two such requests do not deadlock. One statement could
        # lock the rows in any order, and on a cluster needs several nodes.
        with transaction.atomic():
            deleted = [key for key in selected if own_links(request).filter(key=key).delete()[0]]
        if not deleted:
            raise Http404
        links_are = f"/{deleted[0]} is" if len(deleted) == 1 else f"{len(deleted)} links are"
        messages.success(request, f"{links_are} deleted.")
        return see_other("my_links")
    links = own_links(request).filter(key__in=selected).order_by("key")
    if not links:
        raise Http404
    return render(request, "shorturl/delete_links.html", {"links": links})
