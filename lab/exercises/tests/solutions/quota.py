"""Solutions of the exercise `quota`."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.postgres.functions import TransactionNow
from django.db import transaction
from django.db.models import F, Func

from lab.exercises.tests.solutions import sql
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.spending import row_lock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _since(period):
    return Func(period, TransactionNow(), EPOCH, function="DATE_BIN")


def _counter(spender, period):
    own: dict[str, Any] = {"spender": spender, "period": period, "since": _since(period)}
    QuotaUsage.objects.bulk_create([QuotaUsage(**own, spent=0)], ignore_conflicts=True)
    return QuotaUsage.objects.filter(**own)


def _refused(spender, limit, period):
    return ShortUrl.QuotaExceeded(spender, limit=limit, period=period)


def _take(spender, limit, period, amount):
    left = _counter(spender, period).filter(spent__lte=limit - amount)
    if not left.update(spent=F("spent") + amount):
        raise _refused(spender, limit, period)


# Right ones, in addition to a strategy.


def one_update(spender, create, *, limit, period, amount=1):
    with transaction.atomic():
        _take(spender, limit, period, amount)
        return create()


def spends_after_the_create(spender, create, *, limit, period, amount=1):
    """It locks first, so a refused caller makes nothing."""
    with transaction.atomic():
        counter = _counter(spender, period).select_for_update().get()
        if counter.spent + amount > limit:
            raise _refused(spender, limit, period)
        made = create()
        QuotaUsage.objects.filter(pk=counter.pk).update(spent=F("spent") + amount)
        return made


RIGHT: list[Any] = [one_update, spends_after_the_create, row_lock.spend]


# Wrong ones.


def in_a_transaction(spender, create, *, limit, period, amount=1):
    with transaction.atomic():
        if _counter(spender, period).get().spent + amount > limit:
            raise _refused(spender, limit, period)
        _counter(spender, period).update(spent=F("spent") + amount)
        return create()


def locks_no_row(spender, create, *, limit, period, amount=1):
    own: dict[str, Any] = {"spender": spender, "period": period, "since": _since(period)}
    with transaction.atomic():
        counter = QuotaUsage.objects.select_for_update().filter(**own).first()
        counter = counter or QuotaUsage.objects.create(**own, spent=0)
        if counter.spent + amount > limit:
            raise _refused(spender, limit, period)
        QuotaUsage.objects.filter(pk=counter.pk).update(spent=F("spent") + amount)
        return create()


def gives_nothing_back(spender, create, *, limit, period, amount=1):
    _take(spender, limit, period, amount)
    return create()


def creates_first(spender, create, *, limit, period, amount=1):
    made = create()
    _take(spender, limit, period, amount)
    return made


def one_too_many(spender, create, *, limit, period, amount=1):
    return one_update(spender, create, limit=limit + 1, period=period, amount=amount)


def one_for_all_spenders(spender, create, **quota):
    return one_update("all", create, **quota)


def one_at_a_time(spender, create, *, limit, period, amount=1):
    return one_update(spender, create, limit=limit, period=period)


def nothing_returned(spender, create, **quota):
    one_update(spender, create, **quota)


def forgets_the_period(spender, create, *, limit, period, amount=1):
    with transaction.atomic():
        counter = QuotaUsage.objects.filter(spender=spender, period=period)
        if not counter.exists():
            _counter(spender, period)
        if not counter.filter(spent__lte=limit - amount).update(spent=F("spent") + amount):
            raise _refused(spender, limit, period)
        return create()


# Earlier tests accepted these.


def gives_back_what_it_expects(spender, create, *, limit, period, amount=1):
    _take(spender, limit, period, amount)
    try:
        return create()
    except ShortUrl.KeyTaken:
        _counter(spender, period).update(spent=F("spent") - amount)
        raise


def one_more_after_the_first(spender, create, *, limit, period, amount=1):
    with transaction.atomic():
        found = sql(
            "INSERT INTO shorturl_spending AS counter (spender, period, since, spent)"
            " VALUES (%s, %s, date_bin(%s, now(), 'epoch'), %s)"
            " ON CONFLICT (spender, period, since) DO UPDATE"
            " SET spent = counter.spent + excluded.spent"
            " WHERE counter.spent + excluded.spent <= %s RETURNING id",
            *(spender, period, period, amount, limit),
        )
        if not found:
            raise _refused(spender, limit, period)
        return create()


def spends_when_refused(spender, create, *, limit, period, amount=1):
    counter = _counter(spender, period)
    counter.update(spent=F("spent") + amount)
    if counter.get().spent > limit:
        raise _refused(spender, limit, period)
    try:
        with transaction.atomic():
            return create()
    except Exception:
        counter.update(spent=F("spent") - amount)
        raise


def outside_the_callers_transaction(spender, create, **quota):
    made = one_update(spender, create, **quota)
    sql("COMMIT")
    return made


WRONG: dict[Any, str] = {
    in_a_transaction: "2 are made, and the quota had 1 left",
    locks_no_row: "raises IntegrityError",
    gives_nothing_back: "0 are made, and the quota had 1 left",
    creates_first: "The quota is 0, and create is called",
    one_too_many: "succeed: [True, True, True], expected [True, True, False]",
    one_for_all_spenders: "succeed: [True, False, True, False], expected [True, True, True, False]",
    one_at_a_time: "succeed: [True, True], expected [False, True]",
    nothing_returned: "succeed: [False, False, False], expected [True, True, False]",
    forgets_the_period: "0 are made, and the quota had 1 left",
    gives_back_what_it_expects: "0 are made, and the quota had 1 left",
    one_more_after_the_first: "The quota is 0, and create is called",
    spends_when_refused: "succeed: [False, False], expected [False, True]",
    outside_the_callers_transaction: "was rolled back, and this is not undone",
}
