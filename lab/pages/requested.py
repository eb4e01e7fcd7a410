"""What the pages share: 404s, the operator of the lab, and how a page asks for an exploration."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from lab.exceptions import NotFound
from lab.exploring import asked
from lab.exploring.jobs import Job
from lab.models import Exploration
from shorturl.limits.client_address import client_address, hashed_network

RELOAD = 1  # seconds

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


def is_operator(request: HttpRequest) -> bool:
    """Return whether the visitor may cancel and repeat explorations, and ask for any number."""
    return settings.LOCAL or request.user.is_staff


def asked_for(request: HttpRequest, job: Job) -> Exploration:
    """Return the exploration of `job`; if it has no result yet, see that a process explores it."""
    network = hashed_network(client_address(request), settings.SECRET_KEY)
    found = asked.asked_for(job, "" if is_operator(request) else network)
    if is_waiting(found):
        asked.start(found)
    return found


def is_waiting(found: Exploration) -> bool:
    return not (found.summary or found.problem)


def number_in(request: HttpRequest, name: str, *, most: int) -> int | None:
    """Return a number of the query, or None without it; raise NotFound if it is out of range."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) > most:
        raise NotFound(f"{name} must be a number from 0 to {most}, not {text[:20]!r}.")
    return int(text)
