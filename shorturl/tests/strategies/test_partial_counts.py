"""Counters in many rows: no hit is lost while others move, edit, delete or read."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from pginterleave import Outcome, explore
from shorturl.links.partial_counts import roll_up
from shorturl.models import PartialCount, ShortUrl
from shorturl.strategies.resolving import append_only, slotted_counter

pytestmark = pytest.mark.django_db(transaction=True)

TARGET = "https://example.com/"
TIMEOUT = 30  # seconds, many times what any of this takes
WAITING = """
    SELECT count(*) FROM pg_locks
    WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
"""


def closing_connection(function: Callable[[], int]) -> int:
    """Return what the function returns, in a thread that leaves no connection behind."""
    try:
        return function()
    finally:
        connection.close()


def setup(singles: int = 2) -> None:
    """Make the links a and b, each with 5 hits, one in a slot, and so many in rows of their own."""
    ShortUrl.objects.all().erase()
    for pk, key in enumerate("ab", 1):
        ShortUrl.objects.create(pk=pk, key=key, target_url=TARGET, hits=5)
        PartialCount.objects.create(short_url_id=key, slot=0, hits=1)
    # In one order and then in the other, so that two roll-ups meet.
    for number in range(2 * singles):
        PartialCount.objects.create(short_url_id="ab"[(number + number // 2) % 2], hits=1)


def totals() -> dict[str, int]:
    return {link.key: link.total_hits for link in ShortUrl.objects.with_total_hits()}


def test_a_roll_up_moves_and_leaves_the_totals() -> None:
    setup()
    assert totals() == {"a": 8, "b": 8}
    assert roll_up(batch=4) == 6
    assert not PartialCount.objects.exists()
    assert dict(ShortUrl.objects.values_list("key", "hits")) == totals() == {"a": 8, "b": 8}
    assert roll_up() == 0


def test_links_are_locked_in_the_order_of_their_ids() -> None:
    """While it waits for the first one, it has not locked the second, which lies before it."""
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


def test_where_nothing_is_to_be_moved_nothing_is_locked(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    """So that the command runs on a cluster, which locks no rows of many links."""
    setup()
    ShortUrl.objects.update(max_hits=100)
    with django_assert_num_queries(1):
        assert roll_up() == 0
    assert totals() == {"a": 8, "b": 8}


def test_what_is_left_of_an_erased_link_goes_too() -> None:
    setup()
    ShortUrl.objects.filter(key="a").erase()
    assert totals() == {"b": 8}
    assert PartialCount.objects.count() == 3
    # Of a hit that came at that very moment.
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
        # Each of the two takes what the other one leaves.
        pytest.param(lambda: roll_up(batch=3), 0, id="roll-up", marks=pytest.mark.exhaustive),
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
        [lambda: roll_up(batch=3), other],
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
        # Nothing of the link is locked that an edit, or another hit, would wait for.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()"
                " AND relation = 'shorturl_shorturl'::regclass AND mode <> 'AccessShareLock'"
            )
            assert cursor.fetchone() == (0,)
    slotted_counter.resolve("a")
    assert sorted(rows.values_list("slot", "hits")) == [(0, 1), (3, 1), (7, 1)]


def database_url(application_name: str) -> str:
    parameters = {**connection.get_connection_params(), "application_name": application_name}
    name = parameters.pop("dbname")
    texts = {name: value for name, value in parameters.items() if isinstance(value, (str, int))}
    return f"postgres:///{name}?{urlencode(texts)}"


def wait_for(condition: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, problem


def test_kill_9_of_a_roll_up_midway() -> None:
    """It has deleted its rows, and waits for a link to add to, which somebody has locked."""
    setup(50)

    def sessions(event: str) -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # which a transaction keeps
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'rolls up' AND state <> 'idle'"  # which a pooler keeps
                " AND coalesce(wait_event_type, '') ~ %s",
                [event],
            )
            return [pid for (pid,) in cursor.fetchall()]

    url = database_url("rolls up")
    environment = {**os.environ, "SHORTURL_LOCAL": "on", "DATABASE_URL": url}
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key="b")
        with subprocess.Popen(
            [sys.executable, "manage.py", "roll_up"], env=environment, stderr=subprocess.DEVNULL
        ) as process:
            wait_for(lambda: bool(sessions("Lock")), "it does not wait for the link")
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert totals() == {"a": 56, "b": 56}
    # Its session goes on without it, and commits everything or nothing.
    wait_for(lambda: not sessions(""), "its session does not end")
    assert totals() == {"a": 56, "b": 56}
    assert PartialCount.objects.count() in (0, 102)
    roll_up()
    assert totals() == {"a": 56, "b": 56}


def test_the_command_says_what_it_moved() -> None:
    setup()
    output = StringIO()
    call_command("roll_up", stdout=output)
    assert output.getvalue() == "6 hits moved.\n0 rows of visits rolled up.\n"
    setup()
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only TO on")
        try:
            refused = r"^The database: cannot execute .+ in a read-only .+ Nothing is lost"
            with pytest.raises(CommandError, match=refused):
                call_command("roll_up", stdout=output)
        finally:
            cursor.execute("RESET default_transaction_read_only")
