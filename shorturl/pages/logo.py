"""The operator's logo, an image of any file of the machine.

The static files of a production are collected before its settings are known.
"""

import mimetypes
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

DAY = 24 * 60 * 60  # seconds that browsers keep it


def content_type() -> str:
    return mimetypes.guess_type(settings.SHORTURL_LOGO)[0] or ""


def problem() -> str:
    """Return why SHORTURL_LOGO cannot be shown, or "" if it can or is empty."""
    if not settings.SHORTURL_LOGO:
        return ""
    if not content_type().startswith("image/"):
        return "does not end like an image, for example .svg or .png"
    try:
        Path(settings.SHORTURL_LOGO).read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


@csrf_exempt
@require_safe
def logo(request: HttpRequest) -> HttpResponse:
    if not settings.SHORTURL_LOGO:
        raise Http404
    image = Path(settings.SHORTURL_LOGO).read_bytes()
    headers = {"Cache-Control": f"public, max-age={DAY}"}
    return HttpResponse(image, content_type=content_type(), headers=headers)
