"""What the views share: safe requests and forms, 404s, and numbers in the query."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_POST, require_safe

from lab.exceptions import NotFound

View = Callable[..., HttpResponse]


def lab_page(view: View, *, accept: Callable[[View], View] = require_safe) -> View:
    """Decorate a view of the lab: its NotFound is a 404.

    `accept` is the decorator that refuses other methods. Without it they are all but GET and HEAD.
    """

    @accept
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(str(error)) from error

    return wrapped


lab_form = partial(lab_page, accept=require_POST)  # for a view that answers a form


def read_number(request: HttpRequest, name: str, *, maximum: int) -> int | None:
    """Return a number of the query, or None if it is missing; raise NotFound for a wrong one."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) > maximum:
        raise NotFound(f"{name} must be a number from 0 to {maximum}, not {text[:20]!r}.")
    return int(text)
