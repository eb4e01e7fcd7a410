"""An error response that needs no database: JSON under /api, and a page elsewhere."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string


def is_api(path: str) -> bool:
    return f"{path}/".startswith("/api/")


def error_response(
    request: HttpRequest, status: HTTPStatus, detail: str, *, busy: bool = False
) -> HttpResponse:
    """Return a response with the sentence `detail`; a page says if the service is only `busy`."""
    if is_api(request.path_info):
        return JsonResponse({"detail": detail}, status=status)
    # Without the request, whose context processors would read the session.
    template = {503: "503.html", 500: "500.html"}.get(status, "400.html")
    context = {"status": status.value, "detail": detail, "busy": busy}
    return HttpResponse(render_to_string(template, context), status=status)
