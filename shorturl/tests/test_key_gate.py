"""A row that another session keeps locked, and the threads that it does not take."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import close_old_connections, connection, connections, transaction
from django.test import Client

from shorturl import key_gate
from shorturl.exceptions import RowLocked
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


class Occupied:
    """A gate with requests for "hot" inside, which stay there until they are let go."""

    def __init__(self, pool: ThreadPoolExecutor, number: int) -> None:
        self.gate = KeyGate()
        self.go = threading.Event()
        self.came = threading.Semaphore(0)
        self.futures: list[Future[str]] = [
            pool.submit(self.gate.call, self.stay, "hot") for _ in range(number)
        ]
        for _ in range(number):
            assert self.came.acquire(timeout=PATIENCE)

    def stay(self, key: str) -> str:
        self.came.release()
        assert self.go.wait(PATIENCE)
        return key


@pytest.fixture
def occupied(pool: ThreadPoolExecutor) -> Iterator[Callable[[int], Occupied]]:
    made = []

    def occupy(number: int) -> Occupied:
        made.append(Occupied(pool, number))
        return made[-1]

    yield occupy
    for occupied in made:
        occupied.go.set()


def test_more_than_the_share_are_refused_and_other_keys_go_on(
    occupied: Callable[[int], Occupied],
) -> None:
    gate = occupied(2).gate
    with pytest.raises(RowLocked):
        gate.call(str, "hot")
    assert gate.call(str, "cold") == "cold"


def test_who_waits_gets_the_turn_of_who_leaves(
    occupied: Callable[[int], Occupied], pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_gate, "PATIENCE", PATIENCE)
    two = occupied(2)
    third = pool.submit(two.gate.call, str, "hot")
    two.go.set()
    assert third.result(PATIENCE) == "hot"
    assert [future.result(PATIENCE) for future in two.futures] == ["hot", "hot"]
    assert not two.gate._keys  # nothing is kept of a key that nobody asks for


@pytest.fixture
def locked() -> Iterator[ShortUrl]:
    """A short URL whose row this thread keeps locked."""
    short_url = ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(pk=short_url.pk)
        yield short_url


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
def test_a_lock_that_was_met_is_not_waited_for_again(
    locked: ShortUrl, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that meets it gets a 503 after lock_timeout; the next does not even ask."""
    monkeypatch.setattr(key_gate, "PAUSE", 1e9)
    assert pool.submit(followed, "hot").result(PATIENCE) == 503
    with monkeypatch.context() as patch:
        patch.setattr("shorturl.operations.resolve", None)  # which would be called
        assert pool.submit(followed, "hot").result(PATIENCE) == 503
    assert pool.submit(followed, "cold").result(PATIENCE) == 404


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_is_gone_is_forgotten(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_gate, "PAUSE", 0.0)
    short_url = ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(pk=short_url.pk)
        assert pool.submit(followed, "hot").result(PATIENCE) == 503
    assert pool.submit(followed, "hot").result(PATIENCE) == 302
    short_url.refresh_from_db()
    assert short_url.hits == 1
