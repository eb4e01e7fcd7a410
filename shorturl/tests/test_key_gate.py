"""A row that another session keeps locked, and the threads that it does not take."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, close_old_connections, connection, connections, transaction
from django.test import Client

from shorturl import key_gate, views
from shorturl.exceptions import Contended, RowLocked
from shorturl.key_gate import KeyGate
from shorturl.models import ShortUrl

PATIENCE = 30  # seconds, many times what any of this takes


@pytest.fixture(autouse=True)
def share(settings: Any) -> None:
    settings.SHORTURL_REQUESTS_PER_KEY = 2


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """Return what lets those go on who are inside."""
    go = threading.Event()
    yield go
    go.set()


@pytest.fixture
def gate(pool: ThreadPoolExecutor, go: threading.Event) -> KeyGate:
    """Return a gate with two requests for "hot" inside, which stay there until they are let go."""
    gate, came = KeyGate(), threading.Semaphore(0)

    def stay(key: str) -> None:
        came.release()
        assert go.wait(PATIENCE)

    for _ in range(2):
        pool.submit(gate.call, stay, "hot")
        assert came.acquire(timeout=PATIENCE)
    return gate


def test_more_than_the_share_are_refused_and_other_keys_go_on(gate: KeyGate) -> None:
    with pytest.raises(RowLocked):
        gate.call(str, "hot")
    assert gate.call(str, "cold") == "cold"


def test_who_waits_gets_the_turn_of_who_leaves(
    gate: KeyGate, go: threading.Event, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_gate, "PATIENCE", PATIENCE)
    third = pool.submit(gate.call, str, "hot")
    go.set()
    assert third.result(PATIENCE) == "hot"
    pool.shutdown()
    assert not gate._keys  # nothing is kept of a key that nobody asks for


def followed(key: str) -> int:
    """Return the status of a redirect, in a thread with a connection of its own."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '10ms'")
        return Client().get(f"/{key}").status_code
    finally:
        close_old_connections()
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_was_met_is_not_waited_for_again_until_it_is_gone(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that meets it gets a 503 after lock_timeout; the next does not even ask."""
    short_url = ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(pk=short_url.pk)
        monkeypatch.setattr(key_gate, "PAUSE", 1e9)
        assert pool.submit(followed, "hot").result(PATIENCE) == 503
        with monkeypatch.context() as patch:
            patch.setattr("shorturl.operations.follow", lambda *_, **__: 1 / 0)  # is not called
            assert pool.submit(followed, "hot").result(PATIENCE) == 503
        assert pool.submit(followed, "cold").result(PATIENCE) == 404
    monkeypatch.setattr(key_gate, "PAUSE", 0.0)
    assert pool.submit(followed, "hot").result(PATIENCE) == 302
    short_url.refresh_from_db()
    assert short_url.hits == 1


def followed_together(key: str) -> int:
    """Follow the short URL twice at once, in a thread with a connection of its own."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '10ms'")
        return len(views.follow_together(key, [{}, {}]))
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_requests_that_are_counted_together_are_told_of_the_lock(
    pool: ThreadPoolExecutor, settings: Any
) -> None:
    ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key="hot")
        error = pool.submit(followed_together, "hot").exception(PATIENCE)
        assert isinstance(error, RowLocked)
    settings.SHORTURL_VISITS = "upsert"
    error = pool.submit(followed_together, "other").exception(PATIENCE)
    assert str(error) == "upsert counts one hit at a time."


def meet_the_lock(key: str) -> None:
    error: Any = OperationalError()
    error.pgcode = key_gate.LOCK_NOT_AVAILABLE
    raise error


def test_all_who_wait_are_told_of_the_lock(
    pool: ThreadPoolExecutor, go: threading.Event, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_gate, "PATIENCE", 2 * PATIENCE)
    gate, came = KeyGate(), threading.Event()

    def meet(key: str) -> None:
        came.set()
        assert go.wait(PATIENCE)
        meet_the_lock(key)

    settings.SHORTURL_REQUESTS_PER_KEY = 1
    futures: list[Any] = [pool.submit(gate.call, meet, "hot")]
    assert came.wait(PATIENCE)
    futures += [pool.submit(gate.call, str, "hot") for _ in range(3)]
    deadline = time.monotonic() + PATIENCE
    while gate._keys["hot"].waiting < 3:
        assert time.monotonic() < deadline
        time.sleep(0.001)  # between two looks
    go.set()
    assert all(isinstance(each.exception(PATIENCE), RowLocked) for each in futures)


def test_who_gave_up_says_nothing_of_the_lock(
    pool: ThreadPoolExecutor, go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_gate, "PAUSE", 1e9)
    gate, came = KeyGate(), threading.Semaphore(0)

    def give_up(key: str) -> None:
        came.release()
        assert go.wait(PATIENCE)
        raise Contended(key, 1)

    gave_up = pool.submit(gate.call, give_up, "hot")
    assert came.acquire(timeout=PATIENCE)
    with pytest.raises(RowLocked):
        gate.call(meet_the_lock, "hot")
    assert gate.is_locked("hot")
    assert not gate.is_locked("other")
    go.set()
    assert isinstance(gave_up.exception(PATIENCE), Contended)
    with pytest.raises(RowLocked):
        gate.call(str, "hot")
