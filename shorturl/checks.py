"""System checks of the logo, of the countries of visits, and of the quotas of visitors."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks
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


@register()
def check_client_address(**kwargs: Any) -> Iterator[CheckMessage]:
    """Warn if visitors may create links and all of them have the address of the proxy."""
    limited = settings.SHORTURL_PUBLIC_LINKS_PER_DAY
    behind_a_proxy = settings.SECURE_PROXY_SSL_HEADER and not settings.PROXY_CLIENT_ADDRESS
    if settings.SHORTURL_PUBLIC_CREATE and limited and behind_a_proxy:
        yield checks.Warning(
            "All visitors share one quota: their requests have the address of the proxy.",
            hint="Have the proxy set X-Forwarded-For, and set PROXY_CLIENT_ADDRESS=on.",
            id="shorturl.W001",
        )
