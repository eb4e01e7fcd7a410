"""What people hand in as a quota, and the judge refuses; WORKSHOP.md says with which words."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db import transaction
from django.db.models import F, Func, QuerySet

from shorturl.models import ShortUrl, Spending

T = TypeVar("T")
LOCK = threading.Lock()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _counter_of(spender: str, period: timedelta) -> QuerySet[Spending]:
    since: Any = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    unused = Spending(spender=spender, period=period, since=since, spent=0)
    Spending.objects.bulk_create([unused], ignore_conflicts=True)
    return Spending.objects.filter(spender=spender, period=period, since=since)


def in_a_transaction(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    with transaction.atomic():
        counter = _counter_of(spender, period)
        if counter.get().spent + amount > limit:
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        counter.update(spent=F("spent") + amount)
        return create()


def a_python_lock(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    with LOCK:
        return in_a_transaction(spender, create, limit=limit, period=period, amount=amount)


def reads_and_writes(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    counter = _counter_of(spender, period).get()
    if counter.spent + amount > limit:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    counter.spent += amount
    counter.save(update_fields=["spent"])
    return create()


def locks_no_row(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    since: Any = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    own = {"spender": spender, "period": period, "since": since}
    with transaction.atomic():
        counter = Spending.objects.select_for_update().filter(**own).first()
        counter = counter or Spending.objects.create(**own, spent=0)
        if counter.spent + amount > limit:
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        Spending.objects.filter(pk=counter.pk).update(spent=F("spent") + amount)
        return create()


def gives_nothing_back(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    left = _counter_of(spender, period).filter(spent__lte=limit - amount)
    if not left.update(spent=F("spent") + amount):
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    return create()


def creates_first(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    created = create()
    left = _counter_of(spender, period).filter(spent__lte=limit - amount)
    if not left.update(spent=F("spent") + amount):
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    return created


def one_too_many(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    with transaction.atomic():
        left = _counter_of(spender, period).filter(spent__lte=limit)
        if not left.update(spent=F("spent") + amount):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()


def one_for_everybody(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    with transaction.atomic():
        left = _counter_of("everybody", period).filter(spent__lte=limit - amount)
        if not left.update(spent=F("spent") + amount):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()


def one_at_a_time(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    with transaction.atomic():
        left = _counter_of(spender, period).filter(spent__lt=limit)
        if not left.update(spent=F("spent") + 1):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()


def nothing_returned(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> None:
    with transaction.atomic():
        left = _counter_of(spender, period).filter(spent__lte=limit - amount)
        if not left.update(spent=F("spent") + amount):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        create()


def forgets_the_period(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    with transaction.atomic():
        counter = Spending.objects.filter(spender=spender, period=period)
        if not counter.exists():
            _counter_of(spender, period)
        if not counter.filter(spent__lte=limit - amount).update(spent=F("spent") + amount):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()
