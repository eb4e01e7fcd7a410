"""The system checks of `manage.py check`."""

import re

from django.urls import URLPattern, URLResolver, get_resolver

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
