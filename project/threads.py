"""Threads that call functions, and no more.

A thread pool of concurrent.futures makes for each call what its caller may wait for, and nobody
does here: it took 30 µs of the 350 of a redirect, on a busy machine with 16 connections.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Threads:
    """As many threads, which call what is submitted in that order, until the process ends.

    `on_error` is told, in the thread, of a function that has raised; the thread goes on.
    """

    def __init__(self, number: int, on_error: Callable[[str], object]) -> None:
        self.on_error = on_error
        self.calls: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = SimpleQueue()
        for _ in range(number):
            threading.Thread(target=self.run, daemon=True).start()

    @property
    def has_waiting(self) -> bool:
        """Whether something was submitted for which there is no thread yet."""
        return not self.calls.empty()

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a thread call the function."""
        self.calls.put((function, arguments))

    def run(self) -> None:
        """Call what is submitted; what each thread does."""
        while True:
            function, arguments = self.calls.get()
            try:
                function(*arguments)
            except BaseException:  # SystemExit too, which would end this thread alone
                self.on_error("A thread of the worker has failed.")
            del function, arguments  # or the last request would stay until the next one

    def shutdown(self, *, wait: bool) -> None:
        """Do nothing, for gunicorn: the process ends without them, whatever they do."""
