"""System checks of the logo and of the countries of visits."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from shorturl.pages import logo
from shorturl.visits import geoip


@register()
def check_logo(**kwargs: Any) -> Iterator[CheckMessage]:
    if reason := logo.problem():
        yield Error(
            f"SHORTURL_LOGO={settings.SHORTURL_LOGO!r} {reason}.",
            hint="Name the file of a square image, or leave it empty.",
            id="shorturl.E005",
        )


@register()
def check_visits(**kwargs: Any) -> Iterator[CheckMessage]:
    if reason := geoip.problem():
        yield Error(
            f"SHORTURL_GEOIP={settings.SHORTURL_GEOIP!r} cannot be read: {reason}.",
            hint="Name a file in MaxMind's format with countries, or leave it empty.",
            id="shorturl.E004",
        )
