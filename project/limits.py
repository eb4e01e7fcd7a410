"""What a request's body has to be like, before anything else reads it."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig
from django.http import HttpRequest, HttpResponse, UnreadablePostError

from shorturl.views import bad_request


class BodyLimitMiddleware:
    """Refuses a body longer than DATA_UPLOAD_MAX_MEMORY_SIZE, with a 413, and half a one: 400.

    Django applies that limit to the fields of a form, but not to files, which nothing here accepts
    and which it would write to the disk, however large. And it takes what it got of a body that was
    cut off for all of it, so that a link could be made to half a target URL.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # Django reads no further than this header says, and nothing without it.
        header = request.META.get("CONTENT_LENGTH") or "0"
        length = int(header) if header.isdecimal() else 0
        if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return bad_request(request, RequestDataTooBig())
        try:
            whole = not length or len(request.body) == length
        except UnreadablePostError:
            whole = False
        if not whole:
            return bad_request(request, BadRequest("The body ends before its Content-Length."))
        return self.get_response(request)
