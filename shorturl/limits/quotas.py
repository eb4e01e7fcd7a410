"""Quotas: how many links a day and how many creates a minute one spender may have.

A spender is a token, an account or, for public creation, the network of an address.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.postgres.functions import TransactionNow
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F, Func
from django.http import HttpRequest

from shorturl import operations
from shorturl.exceptions import MoreThanQuota, QuotaExceeded, TooManyCreates
from shorturl.limits.client_address import client_address, hashed_network
from shorturl.limits.owners import Who
from shorturl.models import ApiToken, QuotaUsage, ShortUrl
from shorturl.outages import is_outage

T = TypeVar("T")
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NETWORK = "network "  # the prefix of the spenders of public creation
Charge = tuple[timedelta, int, int]  # a period, the limit in it, and the amount to spend
RESERVE = sql.SQL("""
    INSERT INTO {table} AS counter (spender, period, since, spent) VALUES {rows}
    ON CONFLICT (spender, period, since) DO UPDATE SET spent = counter.spent + excluded.spent
    WHERE counter.spent + excluded.spent <= CASE excluded.period {limits} END
    RETURNING period, since
""")
TABLE = sql.Identifier(QuotaUsage._meta.db_table)
ROW = sql.SQL("(%s, %s, date_bin(%s, now(), 'epoch'), %s)")
LIMIT = sql.SQL("WHEN %s THEN %s")


@dataclass(frozen=True)
class Quota:
    name: str  # for programs
    what: str  # for people
    limit: int
    period: timedelta


def spender_of(who: Who, request: HttpRequest) -> str:
    """Return the spender as text; tokens of an account, which may be many, spend the account's."""
    if isinstance(who, ApiToken):
        return f"account {who.user_id}" if who.user_id else f"token {who.pk}"
    if who.is_authenticated:
        return f"account {who.pk}"
    return NETWORK + hashed_network(client_address(request), settings.SECRET_KEY)


def quotas_of(spender: str) -> list[Quota]:
    public, whose = ("PUBLIC_", " from one network") if spender.startswith(NETWORK) else ("", "")
    links = getattr(settings, f"SHORTURL_{public}LINKS_PER_DAY")
    creates = getattr(settings, f"SHORTURL_{public}CREATES_PER_MINUTE")
    found = [
        Quota("minute", f"creates a minute{whose}", creates, MINUTE),
        Quota("day", f"links a day{whose}", links, DAY),
    ]
    return [quota for quota in found if quota.limit]


def used(spender: str) -> list[tuple[Quota, int]]:
    now = Func(F("period"), TransactionNow(), EPOCH, function="DATE_BIN")
    counters = QuotaUsage.objects.filter(spender=spender, since=now)
    spent = dict(counters.values_list("period", "spent"))
    return [(quota, spent.get(quota.period, 0)) for quota in quotas_of(spender)]


def spend(spender: str, create: Callable[[], T], *, links: int = 1) -> T:
    """Spend the quotas on up to `links` new links; return the result of `create`, which makes them.

    Every create locks the counter of the day first, so no two creates deadlock over their counters.

    Raises TooManyCreates when a quota is used up, and MoreThanQuota for more links than the whole
    quota.
    """
    quotas = {quota.period: quota for quota in quotas_of(spender)}
    charges = [
        (quota.period, quota.limit, links if quota.period == DAY else 1)
        for quota in quotas.values()
    ]
    for period, limit, amount in charges:
        if amount > limit:
            raise MoreThanQuota(amount, limit, quotas[period].what)
    try:
        return reserve(spender, create, charges) if charges else create()
    except QuotaExceeded as error:
        quota, seconds = quotas[error.period], seconds_left(error.period)
        fields = headers(quota, seconds, spender)
        raise TooManyCreates(quota.limit, quota.what, seconds=seconds, headers=fields) from error


def reuse(
    spender: str, target_url: str, *, owner_id: int, is_kept: bool = False
) -> tuple[ShortUrl, bool]:
    """Return the owner's live link to `target_url`, or a new one, and whether it is new.

    An existing link costs nothing, unless the answer `is_kept` in an idempotency record, which is a
    row too. Raises the errors of spend() and operations.reuse().
    """
    if not is_kept and (found := operations.reusable(target_url, owner_id=owner_id)):
        return found, False

    def create() -> tuple[ShortUrl, bool]:
        short_url, created = operations.reuse(target_url, owner_id=owner_id)
        # Another process may have created the link since the look above.
        give_back(spender, links=0 if created or is_kept else 1)
        return short_url, created

    return spend(spender, create)


def reserve(spender: str, create: Callable[[], T], charges: Sequence[Charge]) -> T:
    """Spend charges of different periods by one statement, in the transaction of `create`.

    Every create locks the counter of the longest period first, so no two creates deadlock. Raises
    ShortUrl.QuotaExceeded for a quota that is used up; then nothing is spent.

    On a cluster the charges are committed before `create`, whose node may not answer: the others of
    the spender do not wait. They are given back if it fails, unless the link may have been made.
    """
    charges = sorted(charges, reverse=True)
    rows = sql.SQL(", ").join([ROW] * len(charges))
    limits = sql.SQL(" ").join([LIMIT] * len(charges))
    values: list[Any] = []
    values += (each for when, _, price in charges for each in (spender, when, when, price))
    values += (each for when, most, _ in charges for each in (when, most))

    def take() -> dict[timedelta, datetime]:
        with connection.cursor() as cursor:
            cursor.execute(RESERVE.format(table=TABLE, rows=rows, limits=limits), values)
            spent = dict(cursor.fetchall())
        for when, most, price in charges:
            # The upsert does not check the condition for a new counter.
            if when not in spent or price > most:
                raise ShortUrl.QuotaExceeded(spender, limit=most, period=when)
        return spent

    def put_back() -> None:
        for when, _, price in charges:
            counter = QuotaUsage.objects.filter(spender=spender, period=when, since=spent[when])
            # pginterleave: alone - on a cluster only; what was spent here, and by nobody else
            counter.update(spent=F("spent") - price)

    if not settings.DATABASE_CITUS:
        with transaction.atomic():
            take()
            return create()
    spent = apart(transaction.atomic(take))
    try:
        return create()
    except Exception as error:
        if not is_outage(error):
            apart(put_back)
        raise


def apart(work: Callable[[], T]) -> T:
    """Return what `work` returns, whose changes are committed although a transaction is open."""
    if not connection.in_atomic_block:
        return work()

    def worked() -> T:
        with closing(connection):
            return work()

    with ThreadPoolExecutor(1) as thread:  # it has a connection of its own
        return thread.submit(copy_context().run, worked).result()


def give_back(spender: str, links: int) -> None:
    """Subtract `links` that were not created from today's usage, in the transaction of spend()."""
    if links:
        since = Func(DAY, TransactionNow(), EPOCH, function="DATE_BIN")
        today = QuotaUsage.objects.filter(spender=spender, period=DAY, since=since)
        today.filter(spent__gte=links).update(spent=F("spent") - links)


def seconds_left(period: timedelta) -> int:
    """Return the seconds until the next period begins, by the database's clock."""
    seconds = round(period.total_seconds())
    with connection.cursor() as cursor:
        now = "extract(epoch FROM clock_timestamp())"
        cursor.execute(f"SELECT ceil(%s - mod({now}, %s))", [seconds, seconds])
        return int(cursor.fetchone()[0])


def headers(used_up: Quota, seconds: int, spender: str) -> dict[str, str]:
    """Return the headers of a 429, by draft-ietf-httpapi-ratelimit-headers-10."""
    policies = (
        f'"{quota.name}";q={quota.limit};w={round(quota.period.total_seconds())}'
        for quota in quotas_of(spender)
    )
    return {
        "Retry-After": str(seconds),
        "RateLimit-Policy": ", ".join(policies),
        "RateLimit": f'"{used_up.name}";r=0;t={seconds}',
    }
