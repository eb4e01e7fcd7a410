"""What the pages share: 404s, the permission to explore, and the exploration in progress."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from lab.exceptions import NotFound
from lab.models import Batch
from lab.recording import batches
from lab.recording.jobs import Job, jobs_named

View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """Make a view safe and never cached, and answer its NotFound with a 404."""

    @never_cache
    @require_safe
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(str(error)) from error

    return wrapped


def may_explore(request: HttpRequest) -> bool:
    """Return whether the visitor may start an exploration: any visitor locally, else staff."""
    return settings.LOCAL or request.user.is_staff


def exploring(request: HttpRequest, job: Job | None = None) -> dict[str, Any]:
    """Return the running batch of a page (`goes_on`, or None) and whether a visitor `may_explore`.

    On the page of the exploration `job`, `goes_on` is only a batch that contains it. That batch
    then explores it next.
    """
    newest = Batch.objects.order_by("-pk").first()
    goes_on = newest and not batches.is_over(newest)
    if newest and goes_on and job:
        goes_on = str(job) in map(str, jobs_named(newest.what))
        if goes_on and may_explore(request):
            Batch.objects.filter(pk=newest.pk).update(wanted=str(job))
    return {"goes_on": newest if goes_on else None, "may_explore": may_explore(request)}


def number_in(request: HttpRequest, name: str, *, most: int) -> int | None:
    """Return a number of the query, or None without it; raise NotFound if it is out of range."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) > most:
        raise NotFound(f"{name} must be a number from 0 to {most}, not {text[:20]!r}.")
    return int(text)
