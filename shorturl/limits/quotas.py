"""Quotas: how many links a day one spender may create.

A spender is an account, a token without an account or, for public creation, a network.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from datetime import timedelta
from typing import TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import F, QuerySet
from django.http import HttpRequest

from shorturl import cluster, operations
from shorturl.client_address import client_address, hashed_network
from shorturl.exceptions import MoreThanQuota, QuotaExceeded, TooManyCreates, counted
from shorturl.limits.owners import Caller
from shorturl.models import ApiToken, QuotaUsage, ShortUrl, period_start
from shorturl.outages import is_outage
from shorturl.strategies.spending import reservation

T = TypeVar("T")
DAY = timedelta(days=1)
NETWORK = "network "  # the prefix of the spenders of public creation


def spender_of(caller: Caller, request: HttpRequest) -> str:
    """Return the spender as text; tokens of an account, which may be many, spend the account's."""
    if isinstance(caller, ApiToken):
        return f"account {caller.user_id}" if caller.user_id else f"token {caller.pk}"
    if caller.is_authenticated:
        return f"account {caller.pk}"
    return NETWORK + hashed_network(client_address(request.META))


def limit_of(spender: str) -> int:
    """Return how many links a day the spender may create; 0 is no limit."""
    if spender.startswith(NETWORK):
        return int(settings.SHORTURL_PUBLIC_LINKS_PER_DAY)
    return int(settings.SHORTURL_LINKS_PER_DAY)


def usage_today(spender: str) -> QuerySet[QuotaUsage]:
    """Return the spender's counter of the day by the database's clock, if there is one."""
    return QuotaUsage.objects.filter(spender=spender, period=DAY, since=period_start(DAY))


def spend(spender: str, create: Callable[[], T], *, links: int = 1, limit: int | None = None) -> T:
    """Spend `links` of the quota on what `create` creates, and return its result.

    `limit` is that of the settings by default. Raises TooManyCreates when the quota is used up, and
    MoreThanQuota for more links than a day's quota.
    """
    limit = limit_of(spender) if limit is None else limit
    if not limit:
        return create()
    origin = " from one network" if spender.startswith(NETWORK) else ""
    quota = f"{counted(limit, 'link')} a day{origin}"
    if links > limit:
        raise MoreThanQuota(links, quota)
    try:
        if cluster.is_distributed():
            return spend_before(spender, create, links=links, limit=limit)
        return reservation.spend(spender, create, limit=limit, period=DAY, amount=links)
    except QuotaExceeded as error:
        day = round(DAY.total_seconds())
        raise TooManyCreates(limit, quota, seconds=day - int(time.time()) % day) from error


def reuse(
    spender: str, target_url: str, *, owner_id: int, answer_is_stored: bool = False
) -> tuple[ShortUrl, bool]:
    """Return the owner's live link to `target_url`, or a new one, and whether it is new.

    An existing link costs nothing. If `answer_is_stored`, a call always costs one, because its
    idempotency record is a new row.
    """
    if not answer_is_stored and (link := operations.find_reusable(target_url, owner_id=owner_id)):
        return link, False

    def create() -> tuple[ShortUrl, bool]:
        link, is_new = operations.reuse(target_url, owner_id=owner_id)
        # The link costs nothing: another process has created it since find_reusable().
        if not is_new and not answer_is_stored:
            usage_today(spender).filter(spent__gte=1).update(spent=F("spent") - 1)
        return link, is_new

    return spend(spender, create)


def spend_before(spender: str, create: Callable[[], T], *, links: int, limit: int) -> T:
    """Commit what is spent before `create` is called, and give it back if `create` fails.

    A cluster needs this: while a node does not answer, other creates of the spender go on. The
    quota stays spent after an outage, because the links may have been created.
    """
    read_usage = usage_today(spender).get  # the row that reservation.spend() has written
    usage = commit_separately(
        lambda: reservation.spend(spender, read_usage, limit=limit, period=DAY, amount=links)
    )
    try:
        return create()
    except Exception as error:
        if not is_outage(error):
            counter = QuotaUsage.objects.filter(pk=usage.pk)
            # pginterleave: alone - on a cluster only; what was spent here, and by nobody else
            commit_separately(lambda: counter.update(spent=F("spent") - links))
        raise


def commit_separately(work: Callable[[], T]) -> T:
    """Return what `work` returns, whose changes are committed although a transaction is open."""
    if not connection.in_atomic_block:
        return work()

    def work_and_close() -> T:
        with closing(connection):
            return work()

    with ThreadPoolExecutor(1) as thread:  # it has its own connection, and the same time limit
        return thread.submit(copy_context().run, work_and_close).result()
