"""System checks of the files that settings name: the logo, and the countries of visits."""

import mimetypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from shorturl.visits import geoip


@register()
def check_files(**kwargs: Any) -> Iterator[CheckMessage]:
    if settings.SHORTURL_LOGO and (reason := find_problem_of_logo(Path(settings.SHORTURL_LOGO))):
        yield Error(
            f"SHORTURL_LOGO={settings.SHORTURL_LOGO!r} {reason}.",
            hint="Name the file of a square image, or leave it empty.",
            id="shorturl.E005",
        )
    if reason := geoip.find_problem():
        yield Error(
            f"SHORTURL_GEOIP={settings.SHORTURL_GEOIP!r} cannot be read: {reason}.",
            hint="Name a file in MaxMind's format with countries, or leave it empty.",
            id="shorturl.E004",
        )


def find_problem_of_logo(path: Path) -> str:
    """Return why the file cannot be shown as an image; "" if it can."""
    if not str(mimetypes.guess_type(path)[0]).startswith("image/"):
        return "does not end like an image, for example .svg or .png"
    try:
        path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""
