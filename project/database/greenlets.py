"""Run functions that use the database on the event loop, without blocking it.

Each function runs in a greenlet. When psycopg2 has to wait, the greenlet switches to the event
loop, which resumes it when the connection can be read. So a strategy stays a plain function, and
its statement needs no thread. The way to a thread and back would take as long as the statement.

On an event loop Django keeps connections by context. Each greenlet has a context, and so a
connection. It runs one function after another, as a new greenlet for each would take longer.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet


class OnTheLoop(greenlet):  # type: ignore[misc]
    """Runs functions on the event loop, one after another."""

    def __init__(self, free: "list[OnTheLoop]") -> None:
        super().__init__()
        self.gr_context = Context()
        self.loop = asyncio.get_running_loop()
        self.free = free

    def run(self, told: "asyncio.Future[Any]", function: Callable[[], Any]) -> None:
        """Run the function; then be free until there is another one."""
        while True:
            try:
                told.set_result(function())
            except Exception as error:
                told.set_exception(error)
            self.free.append(self)
            told, function = self.parent.switch()

    def readable(self, fileno: int, seconds: float) -> bool:
        """Wait until the socket can be read; return False when that takes longer."""
        return self.ready(self.loop.add_reader, self.loop.remove_reader, fileno, seconds)

    def writable(self, fileno: int, seconds: float) -> bool:
        """Wait until the socket can be written; return False when that takes longer."""
        return self.ready(self.loop.add_writer, self.loop.remove_writer, fileno, seconds)

    def ready(self, add: Any, remove: Any, fileno: int, seconds: float) -> bool:
        add(fileno, self.switch, True)
        late = self.loop.call_later(seconds, self.switch, False)
        in_time: bool = self.parent.switch()
        late.cancel()
        remove(fileno)
        return in_time

    def in_thread(self, function: Callable[[], Any]) -> None:
        """Wait until a thread has run a blocking function, such as one that looks up a host."""
        done = self.loop.run_in_executor(None, function)
        done.add_done_callback(self.switch)
        self.parent.switch()
        done.result()


class Greenlets:
    """Starts functions on one event loop. Nothing limits how many run at a time."""

    def __init__(self) -> None:
        self.free: list[OnTheLoop] = []

    def run(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Start a function; the future gets its result or exception."""
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        one = self.free.pop() if self.free else OnTheLoop(self.free)
        one.switch(told, partial(function, *arguments))
        return told


def current() -> OnTheLoop | None:
    """Return the caller's greenlet; None in a thread."""
    here = getcurrent()
    return here if isinstance(here, OnTheLoop) else None
