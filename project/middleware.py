"""What all responses have in common, how long a body may be, and the short way of a redirect."""

from collections.abc import Callable

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse

from project.unavailable import unavailable
from shorturl import views
from shorturl.keys import key_of
from shorturl.outages import is_outage

View = Callable[[HttpRequest], HttpResponse]


def head(get_response: View) -> View:
    """Drop the body that a view made as for GET; gunicorn would drop it too, and log a warning."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.method == "HEAD" and not response.streaming:
            response.content = b""  # Content-Length stays, as that of a GET
        return response

    return middleware


def no_store(get_response: View) -> View:
    """Have no response kept, by browsers or caches on the way, that does not say otherwise.

    What is at a path changes when a link is made or deleted: a 404 that was kept would hide a link
    that is there by now, and a QR code outlive its link. Static files say otherwise.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.setdefault("Cache-Control", "no-store")
        return response

    return middleware


def body_limit(get_response: View) -> View:
    """Refuse a body longer than the path may have with a 413, unread.

    Django applies DATA_UPLOAD_MAX_MEMORY_SIZE to the fields of a form, but not to files, which
    nothing here accepts and which it would write to the disk, however large.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        # Django reads no further than this header says, and nothing without it.
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length) > views.longest_body(request):
            return views.bad_request(request, RequestDataTooBig())
        return get_response(request)

    return middleware


def redirect(get_response: View) -> View:
    """Answer every request for a key here, in front of what only pages need.

    What project/redirects.py leaves to Django looks up no session, user, message or URL pattern.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        key = key_of(request.path_info)
        if key is None:
            return get_response(request)
        try:
            return views.resolve(request, key)
        except Exception as error:
            if is_outage(error):  # which process_exception() turns into a 503 for a view
                return unavailable(request, error)
            raise

    return middleware
