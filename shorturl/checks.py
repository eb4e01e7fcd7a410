"""System checks of the strategies that are chosen, of visits, and of the quotas of visitors."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register

from shorturl import operations
from shorturl.strategies import Strategy, Verdict
from shorturl.visits import geoip

REUSING = operations.setting("reusing")
VISITS = operations.setting("recording_visits")


@register()
def check_strategies(**kwargs: Any) -> list[CheckMessage]:
    """Refuse an unknown strategy, and, unless exhibits are allowed, one that is not right.

    A strategy that reuses links must also run inside the transaction of an Idempotency-Key.
    """
    return [
        message
        for operation, strategies in operations.STRATEGIES.items()
        for message in _check_strategy(operations.setting(operation), strategies)
    ]


def _check_strategy(setting: str, strategies: dict[str, Strategy[Any]]) -> Iterator[CheckMessage]:
    name = getattr(settings, setting)
    if setting == VISITS and not name:
        return
    right = [s.name for s in strategies.values() if s.verdict is Verdict.RIGHT]
    refused = [s.name for s in strategies.values() if setting == REUSING and not s.nests]
    choices = [name for name in right if name not in refused]
    choices += ["off"] if setting == VISITS else []
    hint = f"Choose one of {', '.join(choices)}."
    if name not in strategies:
        yield Error(f"{setting}={name!r} is not a strategy.", hint=hint, id="shorturl.E001")
    elif name not in right and not settings.SHORTURL_EXHIBITS:
        yield Error(
            f"{setting}={name!r} is {strategies[name].verdict.value}: "
            "it is an exhibit, not for a service that others rely on.",
            hint=hint,
            id="shorturl.E001",
        )
    elif name in refused:
        yield Error(
            f"{setting}={name!r} is to be the whole transaction, and a request with an "
            "Idempotency-Key is one already.",
            hint=hint,
            id="shorturl.E003",
        )


@register()
def check_visits(**kwargs: Any) -> list[CheckMessage]:
    """Refuse a GeoIP database that cannot be read; warn of a strategy that is not used."""
    found: list[CheckMessage] = []
    if reason := geoip.problem():
        found.append(
            Error(
                f"SHORTURL_GEOIP={settings.SHORTURL_GEOIP!r} cannot be read: {reason}.",
                hint="Name a file in MaxMind's format with countries, or leave it empty.",
                id="shorturl.E004",
            )
        )
    if settings.SHORTURL_VISITS and settings.SHORTURL_RESOLVING != "combined":
        found.append(
            checks.Warning(
                f"SHORTURL_RESOLVING={settings.SHORTURL_RESOLVING!r} counts nothing: visits are "
                f"recorded by SHORTURL_VISITS={settings.SHORTURL_VISITS!r}, hits included.",
                hint="Leave one of the two at its default, or set SHORTURL_VISITS=off.",
                id="shorturl.W002",
            )
        )
    return found


@register()
def check_client_address(**kwargs: Any) -> list[CheckMessage]:
    """Warn if visitors may create links and all of them have the address of the proxy."""
    limited = settings.SHORTURL_PUBLIC_LINKS_PER_DAY or settings.SHORTURL_PUBLIC_CREATES_PER_MINUTE
    behind_a_proxy = settings.SECURE_PROXY_SSL_HEADER and not settings.PROXY_CLIENT_ADDRESS
    if not (settings.SHORTURL_PUBLIC_CREATE and limited and behind_a_proxy):
        return []
    return [
        checks.Warning(
            "All visitors spend one quota: they come from the address of the proxy.",
            hint="Have the proxy set X-Forwarded-For, and set PROXY_CLIENT_ADDRESS=on.",
            id="shorturl.W001",
        )
    ]
