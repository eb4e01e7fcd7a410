"""The number of schedules, and of the violating ones, is exact and known beforehand."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import IntegrityError, transaction

from pginterleave import Outcome

from . import counter
from .counter import Counter, explored, sql

pytestmark = pytest.mark.usefixtures("counter_table")

HITS = [
    (2, counter.naive, 4, 6),
    (2, counter.atomic_only, 12, 14),
    (2, counter.select_for_update, 0, 6),
    (2, counter.f_expression, 0, 6),
    (2, counter.update_returning, 0, 2),
    (2, counter.compare_and_swap, 0, 6),
    (3, counter.naive, 84, 90),
    (3, counter.select_for_update, 0, 72),
    (3, counter.f_expression, 0, 90),
    (3, counter.update_returning, 0, 6),
    (4, counter.update_returning, 0, 24),
]


@pytest.mark.parametrize(("processes", "resolve", "violating", "schedules"), HITS)
def test_processes_that_count(
    processes: int, resolve: Callable[[], object], violating: int, schedules: int
) -> None:
    found = explored(*[resolve] * processes, invariant=counter.counted(processes))
    assert (found.violating, found.schedules, found.complete) == (violating, schedules, True)
    assert len({*found.orders}) == schedules
    assert {each.order for each in found.violations} <= {*found.orders}
    assert len(found.violations) == violating


def create(keys: str) -> str:
    """Insert the first key that is free, as each of the functions below finds it."""
    Counter.objects.create(id=ord(keys[0]), key=keys[0], hits=0)
    return keys[0]


def check_first(keys: str) -> str:
    return create(next(key for key in keys if not Counter.objects.filter(key=key).exists()))


def table_lock(keys: str) -> str:
    with transaction.atomic():
        sql("LOCK TABLE interleave_counter IN EXCLUSIVE MODE")
        return check_first(keys)


def forgiveness(keys: str) -> str:
    for key in keys:
        try:
            return create(key)
        except IntegrityError:
            continue
    raise RuntimeError("no key is free")


def savepoint(keys: str) -> str:
    for key in keys:
        try:
            with transaction.atomic():
                return create(key)
        except IntegrityError:
            continue
    raise RuntimeError("no key is free")


def on_conflict(keys: str) -> str:
    insert = "INSERT INTO interleave_counter VALUES (%s, %s, 0) ON CONFLICT DO NOTHING RETURNING 1"
    return next(key for key in keys if sql(insert, ord(key), key))


def get_or_create(keys: str) -> str:
    row, created = Counter.objects.get_or_create(key=keys[0], defaults={"id": 9, "hits": 0})
    return row.key if created else "somebody else's"


def in_transaction(create: Callable[[str], str], keys: str) -> str:
    with transaction.atomic():
        return create(keys)


def both_have_a_key(outcomes: list[Outcome]) -> str:
    drawn = [str(outcome.returned or outcome.raised) for outcome in outcomes]
    return "" if {*drawn} in ({"x", "y"}, {"x", "z"}) else ", ".join(drawn)


CREATES = [
    (create, 2, 2),
    (check_first, 4, 6),
    (table_lock, 0, 8),
    (forgiveness, 0, 2),
    (partial(in_transaction, forgiveness), 4, 4),
    (savepoint, 0, 4),
    (partial(in_transaction, savepoint), 0, 24),
    (on_conflict, 0, 2),
    (partial(in_transaction, on_conflict), 0, 4),
    (get_or_create, 14, 14),
]


@pytest.mark.parametrize(("create", "violating", "schedules"), CREATES)
def test_two_processes_that_draw_the_same_key_first(
    create: Callable[[str], str], violating: int, schedules: int
) -> None:
    found = explored(partial(create, "xy"), partial(create, "xz"), invariant=both_have_a_key)
    assert (found.violating, found.schedules, found.complete) == (violating, schedules, True)
