"""The pages where users find, change and delete their own short URLs; staff has the admin for all.

Each change is one statement, whose condition says whose link it is: a look at the owner before
would be out of date by then.
"""

from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Q
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_safe

from shorturl import operations, overview
from shorturl.forms import TargetForm
from shorturl.models import ShortUrl, ShortUrlQuerySet
from shorturl.views import refuse_other_encodings, see_other

PER_PAGE = 20


def mine(request: HttpRequest) -> ShortUrlQuerySet:
    """Return the links of the user who is logged in, without the deleted ones."""
    return ShortUrl.objects.filter(owner_id=request.user.pk, deleted_at=None)


@csrf_exempt
@require_safe
@login_required
def index(request: HttpRequest) -> HttpResponse:
    """List them, newest first, or those of which the key or the target contains what is sought.

    Or, where the address says which, a list of the overview.
    """
    if chosen := overview.LISTS.get(request.GET.get("show", "")):
        return show_overview(request, chosen)
    sought = request.GET.get("q", "").replace("\0", "").strip()  # which no statement can hold
    links = mine(request).with_state().with_total_hits().order_by("-id")
    if sought:
        links = links.filter(Q(key__icontains=sought) | Q(target_url__icontains=sought))
    page = Paginator(links, PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "sought": sought, "lists": overview.LISTS}
    return render(request, "shorturl/my_links.html", context)


def show_overview(request: HttpRequest, chosen: overview.Overview) -> HttpResponse:
    """Show a list of the overview, and say so where it is not of all links."""
    links = mine(request)
    context = {
        "page": chosen.links(links)[: overview.SHOWN],
        "chosen": chosen,
        "lists": overview.LISTS,
        "considered": overview.CONSIDERED,
        "left_out": links.order_by("-id")[overview.CONSIDERED :][:1].exists(),
    }
    return render(request, "shorturl/my_links.html", context)


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@csrf_protect
def edit(request: HttpRequest, key: str) -> HttpResponse:
    """Show the form with what can be changed; when it was filled in, change it."""
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
                changes = {name: form.cleaned_data[name] for name in form.changed_data}
                if changes and not operations.change(mine(request).filter(key=key), **changes):
                    raise Http404
                messages.success(request, f"/{key} is changed.")
                return see_other("my_links")
            except ShortUrl.LimitTooLow as error:
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
    """Ask whether to delete the link; when that was confirmed, delete it."""
    if request.method == "POST":
        deleted, _ = mine(request).filter(key=key).delete()
        if not deleted:
            raise Http404
        messages.success(request, f"/{key} is deleted.")
        return see_other("my_links")
    context = {"short_url": get_object_or_404(mine(request), key=key)}
    return render(request, "shorturl/delete_link.html", context)
