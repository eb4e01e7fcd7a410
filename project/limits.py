"""The limit on a request's body, before any of it is read."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse

from shorturl.views import bad_request


class BodyLimitMiddleware:
    """Refuses a body longer than DATA_UPLOAD_MAX_MEMORY_SIZE, with a 413.

    Django holds the fields of a form against that limit, but not the files, which nothing here
    takes, and which it would write to the disk, however large.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Django reads no further than this header says, and nothing without it.
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return bad_request(request, RequestDataTooBig())
        return self.get_response(request)
