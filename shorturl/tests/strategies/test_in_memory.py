"""in_memory: hits are written by a thread, which ends."""

import threading
from typing import Any

import pytest
from django.db import DataError, connection

from shorturl.models import ShortUrl
from shorturl.strategies.resolving import in_memory

pytestmark = pytest.mark.django_db(transaction=True)


def link() -> ShortUrl:
    return ShortUrl.objects.create(key="hot", target_url="https://example.com/")


def hits() -> int:
    return ShortUrl.objects.get(key="hot").hits


def test_a_thread_writes_the_hits_of_half_a_second_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link()
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
        for each in started:
            each.join()
    assert hits() == 4
    assert len(started) == 3
    assert not any(each.is_alive() for each in started)
    assert left == [None] * 3, "a connection of the thread is left"


def test_a_write_that_fails_loses_its_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    short_url = link()
    in_memory.resolve("hot")
    in_memory.HITS.waiting[short_url.pk] = 2**63  # more than the column holds
    with pytest.raises(DataError):
        in_memory.write()
    in_memory.write()
    assert hits() == 0
