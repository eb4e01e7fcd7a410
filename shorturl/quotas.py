"""What one spender may create: so many links a day, and so many creates a minute.

A spender is a token, an account or, where anybody may create, the network of an address.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from django.conf import settings
from django.contrib.postgres.functions import TransactionNow
from django.db import connection
from django.db.models import F, Func
from django.http import HttpRequest

from shorturl import spending
from shorturl.client_address import client_address, hashed_network
from shorturl.exceptions import MoreThanQuota, QuotaExceeded, TooManyCreates
from shorturl.models import ApiToken, Spending
from shorturl.owners import Who

T = TypeVar("T")
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NETWORK = "network "  # what the spenders of public creation begin with


@dataclass(frozen=True)
class Quota:
    """A limit of what can be made in each period; `name` is for programs, `what` for people."""

    name: str
    what: str
    limit: int
    period: timedelta


def spender_of(who: Who, request: HttpRequest) -> str:
    """Return who spends, as it is kept: a token, an account, or the hash of a network."""
    if isinstance(who, ApiToken):
        return f"token {who.pk}"
    if who.is_authenticated:
        return f"account {who.pk}"
    return NETWORK + hashed_network(client_address(request))


def quotas_of(spender: str) -> list[Quota]:
    """Return the quotas of a spender."""
    public, whose = ("", "")
    if spender.startswith(NETWORK):
        public, whose = "PUBLIC_", " from one network"
    links = getattr(settings, f"SHORTURL_{public}LINKS_PER_DAY")
    creates = getattr(settings, f"SHORTURL_{public}CREATES_PER_MINUTE")
    found = [
        Quota("minute", f"creates a minute{whose}", creates, MINUTE),
        Quota("day", f"links a day{whose}", links, DAY),
    ]
    return [quota for quota in found if quota.limit]


def spend(spender: str, create: Callable[[], T], *, links: int = 1) -> T:
    """Return what `create` returns, which makes up to so many `links`; raise TooManyCreates.

    Raises MoreThanQuota, without a look at what is spent, for more links than a quota has.
    By default they are made and paid for in one transaction. All spend in one order, the day's
    quota first, so that two creates cannot deadlock over their counters.
    """
    for quota in quotas_of(spender):
        amount = links if quota.period == DAY else 1
        if amount > quota.limit:
            raise MoreThanQuota(amount, quota.limit, quota.what)
        create = partial(_within, quota, spender, create, amount)
    return create()


def _within(quota: Quota, spender: str, create: Callable[[], T], amount: int) -> T:
    strategy = spending.STRATEGIES[settings.SHORTURL_SPENDING]
    limit, period = quota.limit, quota.period
    try:
        return strategy.function(spender, create, limit=limit, period=period, amount=amount)
    except QuotaExceeded as error:
        seconds = seconds_left(period)
        fields = headers(quota, seconds, spender)
        raise TooManyCreates(limit, quota.what, seconds=seconds, headers=fields) from error


def give_back(spender: str, links: int) -> None:
    """Take so many links from what was spent today, because they were not made after all.

    For a create of many, to call in its `create`, and so in its transaction.
    """
    if not links:
        return
    today = Spending.objects.filter(
        spender=spender, period=DAY, since=Func(DAY, TransactionNow(), EPOCH, function="DATE_BIN")
    )
    today.filter(spent__gte=links).update(spent=F("spent") - links)


def seconds_left(period: timedelta) -> int:
    """Return in how many seconds the next period begins, by the database's clock."""
    seconds = round(period.total_seconds())
    with connection.cursor() as cursor:
        now = "extract(epoch FROM clock_timestamp())"
        cursor.execute(f"SELECT ceil(%s - mod({now}, %s))", [seconds, seconds])
        return int(cursor.fetchone()[0])


def headers(used_up: Quota, seconds: int, spender: str) -> dict[str, str]:
    """Return what a 429 says to programs.

    The RateLimit fields are those of draft-ietf-httpapi-ratelimit-headers-10: every quota with its
    limit and its period, and of the one that is used up what remains, and for how many seconds.
    """
    policies = (
        f'"{quota.name}";q={quota.limit};w={round(quota.period.total_seconds())}'
        for quota in quotas_of(spender)
    )
    return {
        "Retry-After": str(seconds),
        "RateLimit-Policy": ", ".join(policies),
        "RateLimit": f'"{used_up.name}";r=0;t={seconds}',
    }
