"""The system checks of `manage.py check`."""

import re
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from shorturl.checks import check_client_address
from shorturl.links.keys import key_of


def first_segments(patterns: list[URLPattern | URLResolver], prefix: str = "") -> set[str]:
    """Return the first segments of all paths below `prefix`."""
    segments = set()
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver) and "/" not in route:
            segments |= first_segments(pattern.url_patterns, route)
        else:
            segments.add(re.split(r"[/$]", route.removeprefix("^"))[0])
    return segments


def test_no_path_of_the_service_can_be_a_key() -> None:
    segments = first_segments(get_resolver().url_patterns)
    assert {"admin", "api", "lab", "login", "links"} <= segments
    assert [each for each in segments if key_of(f"/{each}")] == []


def test_a_quota_that_all_visitors_would_share_gets_a_warning(settings: Any) -> None:
    settings.SHORTURL_PUBLIC_CREATE, settings.SHORTURL_PUBLIC_LINKS_PER_DAY = True, 100
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert [each.id for each in check_client_address()] == ["shorturl.W001"]
    settings.PROXY_CLIENT_ADDRESS = True
    assert not list(check_client_address())
