"""Solutions of the exercises: some RIGHT ones, and WRONG ones.

Each wrong one shows that a check works, and has a part of the sentence that refuses it.
"""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone

from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.creating import forgiveness, get_or_create
from shorturl.strategies.delivering import advisory_lock, delete_returning
from shorturl.strategies.reusing import find_then_create, serializable
from shorturl.strategies.spending import conditional_update

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sql(text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values)


def live(key):
    return ShortUrl.objects.live().filter(key=key)


def reads_after_the_update(key):
    if not live(key).update(hits=F("hits") + 1):
        raise ShortUrl.DoesNotExist(key)
    return ShortUrl.objects.get(key=key)


def compare_and_swap(key, attempts=20):
    for _ in range(attempts):
        link = live(key).get()
        if live(key).filter(hits=link.hits).update(hits=link.hits + 1):
            return link
    raise ShortUrl.Contended(key, attempts)


def a_lock_on_hash(key):
    with transaction.atomic():
        sql("SELECT pg_advisory_xact_lock(%s)", hash(key))
        link = live(key).get()
        link.hits += 1
        link.save(update_fields=["hits"])
        return link


def a_lock_outlives_the_call(key):
    sql("SELECT pg_advisory_lock(hashtext(%s))", key)
    return reads_after_the_update(key)


def the_cause_is_lost(key):
    try:
        return reads_after_the_update(key)
    except DatabaseError:
        raise ShortUrl.Contended(key, 1) from None


def a_failed_read_is_no_link(key):
    try:
        live(key).get()
    except Exception as error:
        raise ShortUrl.DoesNotExist(key) from error
    return reads_after_the_update(key)


def pythons_clock(spender, create, *, limit, period, amount=1):
    own = {"since": EPOCH + (timezone.now() - EPOCH) // period * period, "period": period}
    with transaction.atomic():
        unused = QuotaUsage(spender=spender, spent=0, **own)
        QuotaUsage.objects.bulk_create([unused], ignore_conflicts=True)
        left = QuotaUsage.objects.filter(spender=spender, spent__lte=limit - amount, **own)
        if not left.update(spent=F("spent") + amount):
            raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
        return create()


RIGHT: list[tuple[str, Any]] = [
    ("resolve", compare_and_swap),
    ("reuse", serializable.reuse),
    ("quota", conditional_update.spend),
    ("deliver", advisory_lock.deliver),
]
WRONG: list[tuple[str, Any, str]] = [  # None is the given function
    *((name, None, "is right") for name in ("resolve", "create", "reuse", "quota", "deliver")),
    ("resolve", partial(compare_and_swap, attempts=10**9), "The call does not end"),
    ("resolve", a_lock_on_hash, "in processes of the operating system"),
    ("resolve", a_lock_outlives_the_call, "an advisory lock"),
    ("resolve", the_cause_is_lost, "the error of the database is right"),
    ("resolve", a_failed_read_is_no_link, "another session has locked the table"),
    ("create", forgiveness.create, "raises TransactionManagementError"),
    ("create", get_or_create.create, "is right"),
    ("reuse", find_then_create.reuse, "as one after the other"),
    ("quota", pythons_clock, "in processes of the operating system"),
    ("deliver", delete_returning.deliver, "is not in the table"),
]
