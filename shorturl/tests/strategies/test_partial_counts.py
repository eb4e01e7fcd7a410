"""Partial counts: no hit is lost beside a roll-up, an edit, a deletion or a read."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from pginterleave import Outcome, explore
from shorturl.links.partial_counts import roll_up
from shorturl.models import PartialCount, ShortUrl
from shorturl.strategies.resolving import append_only, slotted_counter
from shorturl.tests.callers import closing_connection, run

pytestmark = pytest.mark.django_db(transaction=True)

TARGET = "https://example.com/"
TIMEOUT = 30  # seconds
WAITING = """
    SELECT count(*) FROM pg_locks
    WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
"""


def setup(singles: int = 2) -> None:
    """Make the links a and b, each with 5 hits, one in a slot, and `singles` in single rows."""
    ShortUrl.objects.all().erase()
    for pk, key in enumerate("ab", 1):
        ShortUrl.objects.create(pk=pk, key=key, target_url=TARGET, hits=5)
        PartialCount.objects.create(short_url_id=key, slot=0, hits=1)
    # In alternating order, so that two roll-ups meet.
    for number in range(2 * singles):
        PartialCount.objects.create(short_url_id="ab"[(number + number // 2) % 2], hits=1)


def totals() -> dict[str, int]:
    return {link.key: link.total_hits for link in ShortUrl.objects.with_total_hits()}


def test_a_roll_up_moves_and_leaves_the_totals(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    """One statement moves a batch, so a killed roll-up has moved all of it or nothing."""
    setup()
    assert totals() == {"a": 8, "b": 8}
    with django_assert_num_queries(1 + 2):  # the first asks whether there is anything
        assert roll_up(batch=4) == 6
    assert not PartialCount.objects.exists()
    assert dict(ShortUrl.objects.values_list("key", "hits")) == totals() == {"a": 8, "b": 8}
    assert roll_up() == 0


def test_links_are_locked_in_the_order_of_their_ids() -> None:
    """A roll-up that waits for the first link has not locked the second, whose row comes first."""
    ShortUrl.objects.create(pk=2, key="b", target_url=TARGET)
    ShortUrl.objects.create(pk=1, key="a", target_url=TARGET)
    for key in "ba":
        PartialCount.objects.create(short_url_id=key, hits=1)
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            ShortUrl.objects.select_for_update().get(key="a")
            moved = pool.submit(closing_connection, roll_up)
            deadline = time.monotonic() + TIMEOUT
            while not moved.done() and time.monotonic() < deadline:
                cursor.execute(WAITING)
                if cursor.fetchone()[0]:
                    break
            ShortUrl.objects.select_for_update(nowait=True).get(key="b")
        assert moved.result(TIMEOUT) == 2


def test_a_roll_up_of_nothing_locks_nothing(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    """The command runs on Citus, too, which cannot lock rows of many links."""
    setup()
    ShortUrl.objects.update(max_hits=100)
    with django_assert_num_queries(1):
        assert roll_up() == 0
    assert totals() == {"a": 8, "b": 8}


def test_the_counts_of_an_erased_link_are_removed() -> None:
    setup()
    ShortUrl.objects.filter(key="a").erase()
    assert totals() == {"b": 8}
    assert PartialCount.objects.count() == 3
    # Of a concurrent hit.
    PartialCount.objects.create(short_url_id="gone", hits=1)
    roll_up()
    assert (totals(), PartialCount.objects.count()) == ({"b": 8}, 0)


def test_a_link_that_is_deleted_or_edited_keeps_its_hits(client: Client) -> None:
    setup()
    ShortUrl.objects.filter(key="a").delete()
    for strategy in (append_only, slotted_counter):
        with pytest.raises(ShortUrl.DoesNotExist):
            strategy.resolve("a")
        ShortUrl.objects.filter(key="b").update(target_url=f"{TARGET}new")
        assert strategy.resolve("b").target_url == f"{TARGET}new"
    assert totals() == {"a": 8, "b": 10}
    assert client.get("/api/links/b").json()["hits"] == 10
    assert '<dd class="hits">10</dd>' in client.get("/b/stats").text
    roll_up()
    assert totals() == {"a": 8, "b": 10}


def one_edit() -> None:
    ShortUrl.objects.filter(key="a").update(target_url=f"{TARGET}new")


@pytest.mark.parametrize(
    ("other", "hits"),
    [
        pytest.param(lambda: roll_up(batch=4), 0, id="roll-up", marks=pytest.mark.exhaustive),
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
        [lambda: roll_up(batch=4), other],
        setup=setup,
        invariant=exact,
        split_autocommit=True,
        reduce=True,
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


def test_the_command_says_what_it_moved() -> None:
    setup()
    assert run("roll_up") == ("6 hits moved.\n0 rows of visits rolled up.\n", "")
    setup()
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only TO on")
        try:
            refused = r"^The database: cannot execute .+ in a read-only .+ Nothing is lost"
            with pytest.raises(CommandError, match=refused):
                run("roll_up")
        finally:
            cursor.execute("RESET default_transaction_read_only")
