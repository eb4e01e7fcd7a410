"""The number of schedules, and of those that break, is exact and known beforehand."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction

from pginterleave import Outcome, explore

from . import counter
from .counter import Counter, counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")

TWO_HITS = [
    (counter.naive, 4, 6, "1212"),
    (counter.atomic_only, 12, 14, "112122"),
    (counter.select_for_update, 0, 6, None),
    (counter.f_expression, 0, 6, None),
    (counter.update_returning, 0, 2, None),
    (counter.compare_and_swap, 0, 6, None),
]

THREE_HITS = [
    (counter.naive, 84, 90),
    (counter.select_for_update, 0, 72),
    (counter.f_expression, 0, 90),
    (counter.update_returning, 0, 6),
]


@pytest.mark.parametrize(("resolve", "broken", "schedules", "counterexample"), TWO_HITS)
def test_two_processes_that_count(
    resolve: Callable[[], object], broken: int, schedules: int, counterexample: str | None
) -> None:
    found = explore([resolve] * 2, setup=counter.setup, invariant=counter.counted(2))
    assert (len(found.violations), found.schedules, found.complete) == (broken, schedules, True)
    assert (found.counterexample.order if found.counterexample else None) == counterexample
    assert len({schedule.order for schedule in found.violations}) == broken


@pytest.mark.parametrize(("resolve", "broken", "schedules"), THREE_HITS)
def test_three_processes_that_count(
    resolve: Callable[[], object], broken: int, schedules: int
) -> None:
    found = explore([resolve] * 3, setup=counter.setup, invariant=counter.counted(3))
    counts = (len(found.violations), found.schedules, found.complete)
    assert counts == (broken, schedules, True), found.counterexample and found.counterexample.draw()


def test_four_processes_that_count_in_one_statement() -> None:
    processes = [counter.update_returning] * 4
    found = explore(processes, setup=counter.setup, invariant=counter.counted(4))
    assert (len(found.violations), found.schedules) == (0, 24)


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


@pytest.mark.parametrize(("create", "broken", "schedules"), CREATES)
def test_two_processes_that_draw_the_same_key_first(
    create: Callable[[str], str], broken: int, schedules: int
) -> None:
    processes = [partial(create, "xy"), partial(create, "xz")]
    found = explore(processes, setup=counter.setup, invariant=both_have_a_key)
    assert (len(found.violations), found.schedules, found.complete) == (broken, schedules, True)


def test_the_caller_s_connection_is_left_as_it_was() -> None:
    before = sql("SHOW synchronous_commit")
    explore([counter.naive], setup=counter.setup, invariant=counter.counted(1)).assert_safe()
    assert sql("SHOW synchronous_commit") == before
    assert connection.get_autocommit()
