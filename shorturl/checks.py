"""System checks of the chosen strategies, of visits, and of the quotas of visitors."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register

from shorturl import operations
from shorturl.strategies.strategy import Verdict
from shorturl.strategies.table import STRATEGIES
from shorturl.visits import geoip


@register()
def check_strategies(**kwargs: Any) -> Iterator[CheckMessage]:
    """Refuse an unknown strategy, and, unless exhibits are allowed, one that is not right.

    A strategy that reuses links must also run inside the transaction of an Idempotency-Key.
    """
    for operation, strategies in STRATEGIES.items():
        setting = operations.setting(operation)
        name = getattr(settings, setting)
        can_be_off = operation == "recording_visits"
        if can_be_off and not name:
            continue
        nested = operation == "reusing"
        right = [
            each.name
            for each in strategies.values()
            if each.verdict is Verdict.RIGHT and (each.nests or not nested)
        ]
        hint = f"Choose one of {', '.join([*right, 'off'] if can_be_off else right)}."
        if name not in strategies:
            yield Error(f"{setting}={name!r} is not a strategy.", hint=hint, id="shorturl.E001")
        elif strategies[name].verdict is not Verdict.RIGHT and not settings.SHORTURL_EXHIBITS:
            yield Error(
                f"{setting}={name!r} is {strategies[name].verdict.value}: "
                "it is an exhibit, not for a service that others rely on.",
                hint=hint,
                id="shorturl.E001",
            )
        elif nested and not strategies[name].nests:
            yield Error(
                f"{setting}={name!r} must be the outermost transaction, but a request with an "
                "Idempotency-Key already runs in one.",
                hint=hint,
                id="shorturl.E003",
            )


@register()
def check_visits(**kwargs: Any) -> Iterator[CheckMessage]:
    if reason := geoip.problem():
        yield Error(
            f"SHORTURL_GEOIP={settings.SHORTURL_GEOIP!r} cannot be read: {reason}.",
            hint="Name a file in MaxMind's format with countries, or leave it empty.",
            id="shorturl.E004",
        )
    if settings.SHORTURL_VISITS and settings.SHORTURL_RESOLVING != "combined":
        yield checks.Warning(
            f"SHORTURL_RESOLVING={settings.SHORTURL_RESOLVING!r} is not used: "
            f"SHORTURL_VISITS={settings.SHORTURL_VISITS!r} records visits and counts the hits.",
            hint="Leave one of the two at its default, or set SHORTURL_VISITS=off.",
            id="shorturl.W002",
        )


@register()
def check_client_address(**kwargs: Any) -> Iterator[CheckMessage]:
    """Warn if visitors may create links and all of them have the address of the proxy."""
    limited = settings.SHORTURL_PUBLIC_LINKS_PER_DAY or settings.SHORTURL_PUBLIC_CREATES_PER_MINUTE
    behind_a_proxy = settings.SECURE_PROXY_SSL_HEADER and not settings.PROXY_CLIENT_ADDRESS
    if settings.SHORTURL_PUBLIC_CREATE and limited and behind_a_proxy:
        yield checks.Warning(
            "All visitors share one quota: their requests have the address of the proxy.",
            hint="Have the proxy set X-Forwarded-For, and set PROXY_CLIENT_ADDRESS=on.",
            id="shorturl.W001",
        )
