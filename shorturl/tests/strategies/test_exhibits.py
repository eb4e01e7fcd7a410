"""Partial counts: none is lost beside a roll-up, an edit or a read."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import PartialCount, erase
from shorturl.strategies.exhibits.roll_up import roll_up_hits
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.resolving import append_only, slotted_counter
from shorturl.tests.callers import closing_connection

pytestmark = pytest.mark.django_db(transaction=True)

TARGET = "https://example.com/"
TIMEOUT = 30  # seconds
WAITING = """
    SELECT count(*) FROM pg_locks
    WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
"""


def setup(singles: int = 2) -> None:
    """Make the links a and b, each with 5 hits, one in a slot, and `singles` in single rows."""
    erase(ShortUrl.objects.all())
    for pk, key in enumerate("ab", 1):
        ShortUrl.objects.create(pk=pk, key=key, target_url=TARGET, hits=5)
        PartialCount.objects.create(short_url_id=key, slot=0, hits=1)
    # In alternating order, so that two roll-ups meet.
    for number in range(2 * singles):
        PartialCount.objects.create(short_url_id="ab"[(number + number // 2) % 2], hits=1)


def totals() -> dict[str, int]:
    return dict(ShortUrl.objects.annotate(total=TOTAL_HITS).values_list("key", "total"))


def test_a_roll_up_moves_and_leaves_the_totals(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    """One statement moves a batch, so a killed roll-up has moved all of it or nothing."""
    setup()
    assert totals() == {"a": 8, "b": 8}
    with django_assert_num_queries(2):
        assert roll_up_hits(batch=4) == 6
    assert not PartialCount.objects.exists()
    assert dict(ShortUrl.objects.values_list("key", "hits")) == totals() == {"a": 8, "b": 8}
    assert roll_up_hits() == 0


def test_links_are_locked_in_the_order_of_their_ids() -> None:
    """A roll-up that waits for the first link has not locked the second, whose row comes first."""
    ShortUrl.objects.create(pk=2, key="b", target_url=TARGET)
    ShortUrl.objects.create(pk=1, key="a", target_url=TARGET)
    for key in "ba":
        PartialCount.objects.create(short_url_id=key, hits=1)
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            ShortUrl.objects.select_for_update().get(key="a")
            moved = pool.submit(closing_connection, roll_up_hits)
            deadline = time.monotonic() + TIMEOUT
            while not moved.done() and time.monotonic() < deadline:
                cursor.execute(WAITING)
                if cursor.fetchone()[0]:
                    break
            ShortUrl.objects.select_for_update(nowait=True).get(key="b")
        assert moved.result(TIMEOUT) == 2


def test_a_roll_up_leaves_links_with_a_limit() -> None:
    setup()
    ShortUrl.objects.filter(key="a").update(max_hits=5)
    assert roll_up_hits() == 3
    assert totals() == {"a": 8, "b": 8}


def test_the_counts_of_an_erased_link_are_removed() -> None:
    setup()
    erase(ShortUrl.objects.filter(key="a"))
    assert totals() == {"b": 8}
    assert PartialCount.objects.count() == 3
    # Of a concurrent hit.
    PartialCount.objects.create(short_url_id="gone", hits=1)
    roll_up_hits()
    assert (totals(), PartialCount.objects.count()) == ({"b": 8}, 0)


def test_a_link_that_is_deleted_or_edited_keeps_its_hits() -> None:
    setup()
    ShortUrl.objects.filter(key="a").delete()
    for strategy in (append_only, slotted_counter):
        with pytest.raises(ShortUrl.DoesNotExist):
            strategy.resolve("a")
        ShortUrl.objects.filter(key="b").update(target_url=f"{TARGET}new")
        assert strategy.resolve("b").target_url == f"{TARGET}new"
    assert totals() == {"a": 8, "b": 10}
    roll_up_hits()
    assert totals() == {"a": 8, "b": 10}


def one_edit() -> None:
    ShortUrl.objects.filter(key="a").update(target_url=f"{TARGET}new")


@pytest.mark.parametrize(
    ("other", "hits"),
    [
        pytest.param(lambda: roll_up_hits(batch=4), 0, id="roll-up", marks=pytest.mark.exhaustive),
        pytest.param(lambda: slotted_counter.resolve("a"), 1, id="slot"),
        pytest.param(lambda: append_only.resolve("a"), 1, id="append"),
        pytest.param(one_edit, 0, id="edit"),
        pytest.param(lambda: ShortUrl.objects.filter(key="a").delete(), 0, id="delete"),
        pytest.param(totals, 0, id="read"),
    ],
)
def test_a_roll_up_beside_anything_in_every_order(
    monkeypatch: pytest.MonkeyPatch, other: Callable[[], object], hits: int
) -> None:
    monkeypatch.setattr(slotted_counter, "randrange", lambda _: 0)

    def exact(outcomes: list[Outcome]) -> str:
        found = totals()
        seen = outcomes[-1].returned
        if found != {"a": 8 + hits, "b": 8}:
            return f"the totals are {found}"
        return f"a reader saw {seen}" if isinstance(seen, dict) and seen != found else ""

    result = explore(
        [lambda: roll_up_hits(batch=4), other],
        setup=setup,
        invariant=exact,
    )
    result.assert_safe()
    assert result.schedules > 1


def test_hits_in_different_slots_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = iter([3, 7])
    monkeypatch.setattr(slotted_counter, "randrange", lambda _: next(slots))
    setup(0)
    with transaction.atomic():
        slotted_counter.resolve("a")
        rows = PartialCount.objects.filter(short_url__key="a")
        assert sorted(rows.values_list("slot", "hits")) == [(0, 1), (3, 1)]
        # An edit or another hit would wait for no lock on the link.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()"
                " AND relation = 'shorturl_shorturl'::regclass AND mode <> 'AccessShareLock'"
            )
            assert cursor.fetchone() == (0,)
    slotted_counter.resolve("a")
    assert sorted(rows.values_list("slot", "hits")) == [(0, 1), (3, 1), (7, 1)]
