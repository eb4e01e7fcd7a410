"""What one spender may create: so many links a day, and so many creates a minute.

A spender is a token, an account or, where anybody may create, the network of an address.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

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
from shorturl.strategies import Strategy

T = TypeVar("T")
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Charge = tuple[timedelta, int, int]  # a period, the limit in it, and the amount to spend
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
    quotas = {quota.period: quota for quota in quotas_of(spender)}
    charges = [
        (quota.period, quota.limit, links if quota.period == DAY else 1)
        for quota in quotas.values()
    ]
    for period, limit, amount in charges:
        if amount > limit:
            raise MoreThanQuota(amount, limit, quotas[period].what)
    strategy = spending.STRATEGIES[settings.SHORTURL_SPENDING]
    try:
        return paying(strategy, spender, create, charges)()
    except QuotaExceeded as error:
        quota, seconds = quotas[error.period], seconds_left(error.period)
        fields = headers(quota, seconds, spender)
        raise TooManyCreates(quota.limit, quota.what, seconds=seconds, headers=fields) from error


def paying(
    strategy: Strategy[spending.Spend], spender: str, create: Callable[[], T], charges: list[Charge]
) -> Callable[[], T]:
    """Return what creates and pays the charges, of which the longest period has to be the last.

    That is one call of the strategy, if it can spend several quotas, or one for each of them.
    """
    if strategy.several and charges:
        (period, limit, amount), *also = charges
        quota: dict[str, Any] = {"limit": limit, "period": period, "amount": amount, "also": also}
        return partial(strategy.function, spender, create, **quota)
    for period, limit, amount in charges:
        create = partial(
            strategy.function, spender, create, limit=limit, period=period, amount=amount
        )
    return create


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
