"""The system checks of `manage.py check`."""

import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.urls import URLPattern, URLResolver, get_resolver

from shorturl.checks import check_client_address
from shorturl.links.keys import key_of


def messages() -> str:
    with pytest.raises(SystemCheckError) as raised:
        call_command("check", stdout=StringIO(), stderr=StringIO())
    return str(raised.value)


@pytest.mark.parametrize("name", ["naive", "forgiveness"])  # wrong, and right alone
def test_only_exhibits_may_use_a_strategy_that_is_not_right(settings: Any, name: str) -> None:
    settings.SHORTURL_EXHIBITS = False
    settings.SHORTURL_CREATING, settings.SHORTURL_RESOLVING = name, "f_expression_full_save"
    refused = messages()
    assert f"SHORTURL_CREATING='{name}' is" in refused
    assert "Choose one of table_lock, savepoint, on_conflict" in refused
    assert "SHORTURL_RESOLVING='f_expression_full_save' is wrong" in refused
    settings.SHORTURL_EXHIBITS = True
    call_command("check")
    settings.SHORTURL_RESOLVING = "magic"
    assert "SHORTURL_RESOLVING='magic' is not a strategy" in messages()


def test_reusing_refuses_a_strategy_that_needs_a_transaction_of_its_own(settings: Any) -> None:
    settings.SHORTURL_REUSING = "serializable"
    assert "SHORTURL_REUSING='serializable' must be the outermost transaction" in messages()
    settings.SHORTURL_REUSING = "magic"
    assert "Choose one of on_conflict, advisory_lock." in messages()


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
