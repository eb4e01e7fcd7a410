"""The number of schedules, and of the violating ones, is exact and known beforehand."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from django.db import IntegrityError, transaction

from pginterleave import Outcome

from . import counter
from .counter import Counter, explored, sql

pytestmark = pytest.mark.usefixtures("counter_table")

HITS = [
    (2, counter.naive, 12, 14),
    (2, counter.atomic_only, 12, 14),
    (2, counter.select_for_update, 0, 6),
    (2, counter.f_expression, 0, 14),
    (2, counter.compare_and_swap, 0, 14),
    pytest.param(3, counter.naive, 630, 636, marks=pytest.mark.big),
    (3, counter.select_for_update, 0, 72),
    pytest.param(4, counter.update_returning, 0, 336, marks=pytest.mark.big),
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
    """Insert the first key, as each of the functions below finds it."""
    Counter.objects.create(id=ord(keys[0]), key=keys[0], hits=0)
    return keys[0]


def table_lock(keys: str) -> str:
    with transaction.atomic():
        sql("LOCK TABLE interleave_counter IN EXCLUSIVE MODE")
        return create(next(key for key in keys if not Counter.objects.filter(key=key).exists()))


def savepoint(keys: str) -> str:
    with transaction.atomic():
        for key in keys:
            with suppress(IntegrityError), transaction.atomic():
                return create(key)
    raise RuntimeError("no key is free")


def get_or_create(keys: str) -> str:
    row, created = Counter.objects.get_or_create(key=keys[0], defaults={"id": 9, "hits": 0})
    return row.key if created else "somebody else's"


def both_have_a_key(outcomes: list[Outcome]) -> str:
    drawn = [str(outcome.returned or outcome.raised) for outcome in outcomes]
    return "" if {*drawn} in ({"x", "y"}, {"x", "z"}) else ", ".join(drawn)


CREATES = [(table_lock, 0, 8), (savepoint, 0, 24), (get_or_create, 14, 14)]


@pytest.mark.parametrize(("create", "violating", "schedules"), CREATES)
def test_two_processes_that_draw_the_same_key_first(
    create: Callable[[str], str], violating: int, schedules: int
) -> None:
    found = explored(partial(create, "xy"), partial(create, "xz"), invariant=both_have_a_key)
    assert (found.violating, found.schedules, found.complete) == (violating, schedules, True)
