"""The contract of every strategy for resolving; lab/races has the races."""

import threading
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DataError, connection, transaction
from django.test.utils import CaptureQueriesContext

from pginterleave import Outcome, run_schedule
from pginterleave.pytest_plugin import Interleave
from shorturl.exceptions import Contended
from shorturl.models import CLOCK, ShortUrl
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.resolving import (
    compare_and_swap,
    in_memory,
    repeatable_read,
    update_returning,
)
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.tests.callers import each, only_link

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "https://old.example/", "https://new.example/"

every_strategy = each(STRATEGIES["resolving"].values())
setup = partial(only_link, "hot", target_url=OLD)


def hot() -> ShortUrl:
    return ShortUrl.objects.get(key="hot")


def total(key: str = "hot") -> int:
    in_memory.write()
    links = ShortUrl.objects.filter(key=key).annotate(total_hits=TOTAL_HITS)
    hits: int = links.values_list("total_hits", flat=True).get()
    return hits


@every_strategy
def test_returns_the_short_url_and_counts(strategy: Strategy) -> None:
    setup()
    ShortUrl.objects.create(key="cold", target_url=NEW, hits=5)
    ShortUrl.objects.create(key="viral", target_url=NEW, hits=2**62)
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("Hot")
    for _ in range(3):
        short_url = strategy.function("hot")
    assert (short_url.pk, short_url.key, short_url.target_url) == (hot().pk, "hot", OLD)
    assert short_url.created_at == hot().created_at
    assert (total("hot"), total("cold")) == (3, 5)
    strategy.function("viral")
    assert total("viral") == 2**62 + 1


@every_strategy
@pytest.mark.parametrize(
    "values", [{"deleted_at": CLOCK}, {"expires_at": CLOCK}, {"hits": 5, "max_hits": 5}]
)
def test_a_link_that_is_not_live_counts_no_hit(strategy: Strategy, values: dict[str, Any]) -> None:
    setup()
    ShortUrl.objects.update(**values)
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("hot")
    assert total() == values.get("hits", 0)
    ShortUrl.objects.update(deleted_at=None, max_hits=6, expires_at=CLOCK + timedelta(hours=1))
    assert strategy.function("hot").target_url == OLD


AT_ONCE = ("select_for_update", "update_returning", "combined")  # check and count under one lock


@each(STRATEGIES["resolving"][name] for name in AT_ONCE)
@pytest.mark.parametrize(("ends", "hits"), [("clock_timestamp()", 1), ("'2020-01-01'", 0)])
def test_a_hit_that_waits_for_a_lock_expires_by_the_start_of_its_statement(
    strategy: Strategy, ends: str, hits: int
) -> None:
    """Process 2 locks the row, process 1 waits for it, then 2 lets it expire, now or in 2020.

    The statement of 1 began before the expiry or after it, and gets the row after it.
    """

    def end() -> None:
        table = ShortUrl._meta.db_table
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {table} FOR UPDATE")
            cursor.execute(f"UPDATE {table} SET expires_at = {ends}")

    def follow() -> None:
        with suppress(ShortUrl.DoesNotExist):
            strategy.function("hot")

    steps = 3 if strategy.name == "select_for_update" and hits else 2
    waited = run_schedule(
        "2122" + "1" * (steps - 1), [follow, end], setup=setup, invariant=lambda outcomes: None
    )
    assert waited.outcomes[0].raised is None
    assert total() == hits
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("hot")


@every_strategy
def test_the_callers_transaction_stays_usable(strategy: Strategy) -> None:
    """`repeatable_read` refuses before it sends anything."""
    setup()
    with transaction.atomic():
        if strategy.name != "repeatable_read":
            strategy.function("hot")
            with pytest.raises(ShortUrl.DoesNotExist):
                strategy.function("unknown")
        else:
            with CaptureQueriesContext(connection) as sent, pytest.raises(RuntimeError):
                strategy.function("hot")
            assert len(sent) == 0
        assert ShortUrl.objects.count() == 1
    assert total() == (strategy.name != "repeatable_read")


def lose(module: Any, rounds: int, *, then: str = "") -> Outcome:
    """Let another process count between the read and the write of each of `rounds` attempts."""
    attempt = {compare_and_swap: "12211", repeatable_read: "112211"}[module]
    win = STRATEGIES["resolving"]["update_returning"].function
    schedule = run_schedule(
        attempt * rounds + then,
        [lambda: module.resolve("hot"), lambda: [win("hot") for _ in range(rounds)]],
        setup=setup,
        invariant=lambda outcomes: None,
    )
    return schedule.outcomes[0]


@pytest.mark.parametrize("module", [compare_and_swap, repeatable_read])
def test_an_optimistic_strategy_retries_and_gives_up(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = {compare_and_swap: "111", repeatable_read: "1111"}[module]
    assert lose(module, 10, then=last).returned.hits == hot().hits == 11
    monkeypatch.setattr(module, "ATTEMPTS", 2)
    error = lose(module, 2).raised
    assert isinstance(error, Contended)
    assert str(error).startswith("Gave up on 'hot' after 2 attempts")
    assert hot().hits == 2


@every_strategy
def test_columns_are_known_by_name(strategy: Strategy) -> None:
    """The columns of the table can be in another order, and there can be more of them."""
    setup()
    table = ShortUrl._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN note text NOT NULL DEFAULT 'new'")
        cursor.execute(f"ALTER TABLE {table} RENAME COLUMN deleted_at TO old")
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN deleted_at timestamptz")
    try:
        short_url = strategy.function("hot")
        assert (short_url.key, short_url.target_url, short_url.deleted_at) == ("hot", OLD, None)
        assert short_url.created_at == hot().created_at
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} DROP COLUMN deleted_at, DROP COLUMN note")
            cursor.execute(f"ALTER TABLE {table} RENAME COLUMN old TO deleted_at")


def test_in_memory_writes_the_hits_in_a_thread_which_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup()
    monkeypatch.setattr(in_memory, "PERIOD", 0)
    started: list[threading.Timer] = []
    left: list[object] = []

    def timer(period: float, function: Any) -> threading.Timer:
        def run() -> None:
            function()
            left.append(connection.connection)

        started.append(threading.Timer(period, run))
        return started[-1]

    monkeypatch.setattr(in_memory, "Timer", timer)
    with in_memory.HITS.lock:
        in_memory.HITS.waiting[0] = 1
    in_memory.resolve("hot")
    assert not started  # while hits wait, the timer of the first of them runs
    in_memory.write()
    for _ in range(3):
        in_memory.resolve("hot")
        for one in started:
            one.join()
    assert hot().hits == 4
    assert len(started) == 3
    assert not any(one.is_alive() for one in started)
    assert left == [None] * 3, "a connection of the thread is left"


def test_in_memory_loses_the_hits_of_a_write_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    setup()
    in_memory.resolve("hot")
    in_memory.HITS.waiting[hot().pk] = 2**63  # more than the column holds
    with pytest.raises(DataError):
        in_memory.write()
    in_memory.write()
    assert hot().hits == 0


def test_hits_in_memory_are_written_beside_another_hit(interleave: Interleave) -> None:
    setup()

    def write() -> None:
        in_memory.HITS.waiting[hot().pk] += 2
        in_memory.write()

    interleave(write, lambda: update_returning.resolve("hot").key)
