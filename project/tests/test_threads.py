"""The threads of a worker."""

import sys
import threading
from queue import SimpleQueue

from project.threads import Threads

TIMEOUT = 30  # seconds, many times what any of this takes


def test_what_is_submitted_is_called_by_as_many_threads() -> None:
    threads, go, came = Threads(2, print), threading.Event(), SimpleQueue[int]()

    def call(number: int) -> None:
        came.put(number)
        assert go.wait(TIMEOUT)

    for number in range(3):
        threads.submit(call, number)
    assert {came.get(timeout=TIMEOUT), came.get(timeout=TIMEOUT)} == {0, 1}
    assert threads.has_waiting
    go.set()
    assert came.get(timeout=TIMEOUT) == 2
    assert not threads.has_waiting


def test_a_thread_goes_on_after_an_error() -> None:
    errors, called = SimpleQueue[str](), threading.Event()
    threads = Threads(1, errors.put)
    for function in (lambda: 1 / 0, sys.exit):
        threads.submit(function)
        assert "failed" in errors.get(timeout=TIMEOUT)
    threads.submit(called.set)
    assert called.wait(TIMEOUT)
