"""Responses to HEAD: those to GET, without the body."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class HeadMiddleware:
    """Drops the body that a view made as for GET; gunicorn would drop it too, and log a warning."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.method == "HEAD" and not response.streaming:
            response.content = b""  # Content-Length stays, as that of a GET
        return response
