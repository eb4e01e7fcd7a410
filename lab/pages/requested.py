"""What the views share: safe requests, 404s, and numbers in the query."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from lab.exceptions import NotFound

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


def read_number(request: HttpRequest, name: str, *, maximum: int) -> int | None:
    """Return a number of the query, or None without it; raise NotFound if it is out of range."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) > maximum:
        raise NotFound(f"{name} must be a number from 0 to {maximum}, not {text[:20]!r}.")
    return int(text)
