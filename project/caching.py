"""Whether a response may be kept, by browsers and by caches on the way."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


class NoStoreMiddleware:
    """Has no response kept that does not say otherwise.

    What is at a path changes when a link is made or deleted: a 404 that was kept would hide a link
    that is there by now, and a QR code outlive its link. Static files say otherwise.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.setdefault("Cache-Control", "no-store")
        return response
