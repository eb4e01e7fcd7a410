"""Banned domains: no link is made to one, and no redirect leads there.

A redirect checks the ban when it knows the target, and so after the hit is counted. It therefore
does not matter whether a link was made before, during or after a ban. The check costs no statement:
each process caches the banned domains for HOLDS seconds.
"""

from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import NamedTuple

from django.core.exceptions import ValidationError

from shorturl.exceptions import Banned
from shorturl.links.validators import (
    shortened,
    target_host,
    validate_target_url,
    with_scheme,
)
from shorturl.models import BannedDomain, LinkState, ShortUrl

HOLDS = 2.0  # seconds


class Known(NamedTuple):
    domains: frozenset[str]
    since: float  # when this process began to read them, by monotonic()


known = Known(frozenset(), float("-inf"))
storing = Lock()


def refresh() -> None:
    """Read the banned domains, unless they were read within HOLDS seconds."""
    global known
    now = monotonic()
    if now - known.since > HOLDS:
        domains = frozenset(BannedDomain.objects.values_list("domain", flat=True))
        with storing:
            if now > known.since:  # else another thread has stored a newer read
                known = Known(known.domains if domains == known.domains else domains, now)


def banned(target_url: str, domains: frozenset[str]) -> str | None:
    """Return which of the domains the target is in, if any; it must be a valid URL."""
    if not domains:
        return None
    labels = target_host(target_url).split(".")
    names = (".".join(labels[start:]) for start in range(len(labels)))
    return next((name for name in names if name in domains), None)


def ban_of(target_url: str) -> str | None:
    refresh()
    return banned(target_url, known.domains)


def clean_target_url(target_url: str, own_host: str) -> str:
    """Return a target URL with its scheme; raise ValidationError unless a link may lead there.

    `own_host` is the Host of the request, to which no link may lead.
    """
    target_url = with_scheme(target_url)
    validate_target_url(target_url, own_host)
    validate_not_banned(target_url)
    return target_url


def state_of(short_url: ShortUrl) -> str:
    """Return the state that with_state() has read, or "banned" for a live link to a banned domain.

    No list is filtered by it, because PostgreSQL does not know how a browser reads a host.
    """
    with suppress(ValidationError):  # the row was written by neither a form nor the API
        if short_url.state == LinkState.LIVE and ban_of(short_url.target_url):
            return Banned.state
    return short_url.state


def validate_not_banned(target_url: str) -> None:
    if domain := ban_of(target_url):
        raise ValidationError(
            f"{shortened(target_url)!r} leads to {domain}, which is banned here: "
            "use another target.",
            code="banned",
        )
