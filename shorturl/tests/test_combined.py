"""combined: the threads of one process whose hits one statement counts, in an order of our own."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection, transaction

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl
from shorturl.resolving import combined

pytestmark = pytest.mark.django_db(transaction=True)

TIMEOUT = 30  # seconds, many times what any of this takes


class Threads:
    """Threads that resolve keys; `sent` is what they send, and nothing is sent before `go`."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.shared = combined.Batches()
        self.sent: list[list[Any]] = []
        self.arrived, self.go = threading.Semaphore(0), threading.Event()

    def resolve(
        self,
        key: str = "hot",
        *,
        fails: int = 0,
        lock_timeout: str = f"{TIMEOUT}s",
        function: Callable[..., Any] = combined.resolve,
    ) -> "Future[Any]":
        """Resolve `key` in a thread of its own; its statement `fails` sends what is no number."""
        statements = count(1)

        def gate(execute: Callable[..., Any], sql: Any, params: Any, *rest: Any) -> Any:
            self.sent.append(params)
            self.arrived.release()
            assert self.go.wait(TIMEOUT)
            return execute(
                sql, ["x" if next(statements) == fails else params[0], *params[1:]], *rest
            )

        def run() -> Any:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('lock_timeout', %s, false)", [lock_timeout])
                with connection.execute_wrapper(gate):
                    return function(key, shared=self.shared)
            finally:
                connection.close()

        return self.pool.submit(run)

    def first(self, key: str = "hot", **options: Any) -> "Future[ShortUrl]":
        """Resolve `key` in a thread, whose statement is under way on return."""
        future = self.resolve(key, **options)
        assert self.arrived.acquire(timeout=TIMEOUT)
        return future

    def behind(self, *fails: int) -> "list[Future[ShortUrl]]":
        """Resolve the key in as many threads, one after the other, which wait on return."""
        futures = []
        deadline = time.monotonic() + TIMEOUT
        for number, fail in enumerate(fails, 1):
            futures.append(self.resolve(fails=fail))
            while (last := self.shared.last["hot"]).sent or len(last.hits) < number:
                assert time.monotonic() < deadline
                time.sleep(0.001)  # between two looks
        return futures


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    monkeypatch.setattr(combined, "PATIENCE", TIMEOUT)
    ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with ThreadPoolExecutor(8) as pool:
        threads = Threads(pool)
        yield threads
        threads.go.set()
    assert not threads.shared.last  # nothing is kept of a key that nobody asks for


def hits(key: str = "hot") -> int:
    return ShortUrl.objects.get(key=key).hits


def test_what_arrives_during_a_statement_is_counted_by_the_next(threads: Threads) -> None:
    futures = [threads.first(), *threads.behind(False, False, False)]
    threads.go.set()
    assert [future.result(TIMEOUT).hits for future in futures] == [1, 2, 3, 4]
    assert threads.sent == [[1, "hot", 1], [3, "hot", 3]]
    assert hits() == 4


def test_as_many_of_a_batch_as_there_are_uses_left(threads: Threads) -> None:
    ShortUrl.objects.update(max_hits=3)
    ShortUrl.objects.create(key="cold", target_url="https://example.com/", hits=5)
    first, *batch = [threads.first(), *threads.behind(False, False, False, False)]
    cold = threads.resolve("cold")
    threads.go.set()
    assert first.result(TIMEOUT).hits == 1
    assert [future.result(TIMEOUT).hits for future in batch[:2]] == [2, 3]
    assert all(isinstance(each.exception(TIMEOUT), ShortUrl.DoesNotExist) for each in batch[2:])
    assert cold.result(TIMEOUT).hits == 6
    of_hot = [params for params in threads.sent if params[1] == "hot"]
    assert of_hot == [[1, "hot", 1], [4, "hot", 4], *[[1, "hot", 1]] * 3]
    assert hits() == 3


def test_the_hits_of_one_caller_are_counted_with_those_of_others(threads: Threads) -> None:
    """Each has a number of its own, and each of those for which no use is left is told so."""
    ShortUrl.objects.update(max_hits=4)
    first, second = threads.first(), threads.behind(False)[0]
    several = threads.resolve(function=partial(combined.resolve_together, hits="abc"))
    deadline = time.monotonic() + TIMEOUT
    while len(threads.shared.last["hot"].hits) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.001)  # between two looks
    threads.go.set()
    assert [first.result(TIMEOUT).hits, second.result(TIMEOUT).hits] == [1, 2]
    third, fourth, fifth = several.result(TIMEOUT)
    assert (third.hits, fourth.hits, hits()) == (3, 4, 4)
    assert isinstance(fifth, ShortUrl.DoesNotExist)
    assert threads.sent[1] == [4, "hot", 4]


def test_several_in_a_callers_transaction() -> None:
    ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with transaction.atomic():
        outcomes: Any = combined.resolve_together("hot", "ab")
    assert [each.hits for each in outcomes] == [1, 2]


def test_nobody_is_told_before_the_statement_has_ended(threads: Threads) -> None:
    futures = [threads.first(), *threads.behind(False)]
    assert not any(future.done() for future in futures)
    assert hits() == 0


def test_an_error_is_for_every_hit_of_its_batch(threads: Threads) -> None:
    first, *batch = [threads.first(), *threads.behind(True, False, False)]
    threads.go.set()
    assert first.result(TIMEOUT).hits == 1
    assert all(isinstance(future.exception(TIMEOUT), DataError) for future in batch)
    assert threads.resolve().result(TIMEOUT).hits == hits() == 2


def test_what_is_counted_before_an_error_stays_counted(threads: Threads) -> None:
    """Of a batch of three with two uses left, the third statement fails, after one is counted."""
    ShortUrl.objects.update(max_hits=3)
    first, *batch = [threads.first(), *threads.behind(3, 0, 0)]
    threads.go.set()
    assert [future.result(TIMEOUT).hits for future in (first, batch[0])] == [1, 2]
    assert all(isinstance(future.exception(TIMEOUT), DataError) for future in batch[1:])
    assert hits() == 2


def test_the_batch_behind_an_error_is_counted(threads: Threads) -> None:
    first, *batch = [threads.first(fails=True), *threads.behind(False, False)]
    threads.go.set()
    assert isinstance(first.exception(TIMEOUT), DataError)
    assert [future.result(TIMEOUT).hits for future in batch] == [1, 2]


def test_the_batch_behind_a_locked_row_does_not_wait_as_long_again(threads: Threads) -> None:
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key="hot")
        futures = [threads.first(lock_timeout="10ms"), *threads.behind(False, False)]
        threads.go.set()
        assert all(isinstance(each.exception(TIMEOUT), OperationalError) for each in futures)
    assert threads.sent == [[1, "hot", 1]]


def test_a_key_waits_for_no_other(threads: Threads) -> None:
    """Not when the row of one is locked, and not when the other does not exist."""
    ShortUrl.objects.create(key="cold", target_url="https://example.com/", hits=5)
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key="hot")
        first = threads.first("hot")
        threads.go.set()
        assert threads.resolve("cold").result(TIMEOUT).hits == 6
        missing = threads.resolve("missing")
        assert isinstance(missing.exception(TIMEOUT), ShortUrl.DoesNotExist)
        assert not first.done()
    assert first.result(TIMEOUT).hits == 1


def test_every_hit_of_a_key_that_does_not_exist_is_told(threads: Threads) -> None:
    futures = [threads.first(), *threads.behind(False, False)]
    ShortUrl.objects.all().erase()
    threads.go.set()
    assert all(isinstance(future.exception(TIMEOUT), ShortUrl.DoesNotExist) for future in futures)


def test_who_sends_the_next_statement_waits_so_long_and_counts_nothing(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = threads.first()
    monkeypatch.setattr(combined, "PATIENCE", 0.01)
    assert isinstance(threads.resolve().exception(TIMEOUT), ShortUrl.Contended)
    threads.go.set()
    assert first.result(TIMEOUT).hits == hits() == 1


def test_who_waits_for_it_gives_up_and_is_counted_all_the_same(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    futures = [threads.first(), *threads.behind(False)]
    monkeypatch.setattr(combined, "LONGEST", 0.01)
    assert isinstance(threads.resolve().exception(TIMEOUT), OperationalError)
    threads.go.set()
    assert [future.result(TIMEOUT).hits for future in futures] == [1, 2]
    assert hits() == 3


def test_a_callers_transaction_is_not_waited_for(threads: Threads) -> None:
    futures = [threads.first(), *threads.behind(False)]
    with transaction.atomic():
        assert combined.resolve("hot", shared=threads.shared).hits == 1
        transaction.set_rollback(True)
    threads.go.set()
    assert [future.result(TIMEOUT).hits for future in futures] == [1, 2]


def test_batches_of_two_processes() -> None:
    """In every order of their statements, each hit has a number of its own."""

    def setup() -> None:
        ShortUrl.objects.all().erase()
        ShortUrl.objects.create(key="hot", target_url="https://example.com/")

    def exact(outcomes: list[Outcome]) -> None:
        last = sorted(int(outcome.returned[3]) for outcome in outcomes)
        assert last in ([2, 5], [3, 5])
        assert hits() == 5

    result = explore(
        [lambda: combined.count("hot", "ab"), lambda: combined.count("hot", "abc")],
        setup=setup,
        invariant=exact,
        split_autocommit=True,
    )
    assert result.complete
    assert not result.violations


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    shared = combined.SHARED
    with shared.lock, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of Python 3.12, where there are threads
        shared.last["hot"] = combined.Batch(None)
        if not (child := os.fork()):
            os._exit(shared.lock.locked() or len(shared.last))
        _, status = os.waitpid(child, 0)
    del shared.last["hot"]
    assert status == 0
