"""Solutions of the exercise `quota`."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.postgres.functions import TransactionNow
from django.db import DatabaseError, transaction
from django.db.models import F, Func
from django.utils import timezone

from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.spending import conditional_update

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counter_of(spender, period, since=None):
    since = since or Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    own: dict[str, Any] = {"spender": spender, "period": period, "since": since}
    QuotaUsage.objects.bulk_create([QuotaUsage(**own, spent=0)], ignore_conflicts=True)
    return QuotaUsage.objects.filter(**own)


def take(counter, spender, limit, period, amount, spent=None):
    left = counter.filter(spent__lte=limit - amount)
    if not left.update(spent=F("spent") + (spent or amount)):
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)


def the_counter_stays(spender, create, *, limit, period, amount=1):
    counter = counter_of(spender, period)
    with transaction.atomic():
        take(counter, spender, limit, period, amount)
        return create()


def spends_after_the_create(spender, create, *, limit, period, amount=1):
    """It locks first, so a refused caller makes nothing."""
    with transaction.atomic():
        counter = counter_of(spender, period).select_for_update().get()
        if counter.spent + amount > limit:
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        made = create()
        QuotaUsage.objects.filter(pk=counter.pk).update(spent=F("spent") + amount)
        return made


RIGHT: list[Any] = [the_counter_stays, spends_after_the_create, conditional_update.spend]


def spends_one(spender, create, *, limit, period, amount=1):
    with transaction.atomic():
        take(counter_of(spender, period), spender, limit, period, amount, spent=1)
        return create()


def pythons_clock(spender, create, *, limit, period, amount=1):
    since = EPOCH + (timezone.now() - EPOCH) // period * period
    with transaction.atomic():
        take(counter_of(spender, period, since), spender, limit, period, amount)
        return create()


def gives_nothing_back(spender, create, *, limit, period, amount=1):
    take(counter_of(spender, period), spender, limit, period, amount)
    return create()


def creates_first(spender, create, *, limit, period, amount=1):
    with transaction.atomic():
        made = create()
        take(counter_of(spender, period), spender, limit, period, amount)
        return made


def busy_is_used_up(spender, create, *, limit, period, amount=1):
    try:
        return the_counter_stays(spender, create, limit=limit, period=period, amount=amount)
    except DatabaseError as error:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period) from error


WRONG: dict[Any, str] = {
    spends_one: "and 2 is right",
    pythons_clock: "processes of the operating system",
    gives_nothing_back: "nothing is right",
    creates_first: "raises AssertionError",
    busy_is_used_up: "raises QuotaExceeded",
}
