"""Run functions that use the database on the event loop, without blocking it.

Each function runs in a greenlet. When psycopg2 has to wait, the greenlet switches to the event
loop, which resumes it when the connection can be read. So a strategy stays a plain function, and
its statement needs no thread. The way to a thread and back would take as long as the statement.

On an event loop Django keeps connections by context. No two functions use a context at the same
time, so each has a separate connection.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from greenlet import getcurrent, greenlet


class OnTheLoop(greenlet):  # type: ignore[misc]
    """A function that runs on the event loop."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(function)
        self.loop = asyncio.get_running_loop()

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
        self.free: list[Context] = []  # each has a connection

    def run(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Start a function; the future gets its result or exception."""
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        context = self.free.pop() if self.free else Context()

        def tell() -> None:
            try:
                told.set_result(function(*arguments))
            except Exception as error:
                told.set_exception(error)
            self.free.append(context)

        running = OnTheLoop(tell)
        running.gr_context = context
        running.switch()
        return told


def current() -> OnTheLoop | None:
    """Return the caller's greenlet; None in a thread."""
    here = getcurrent()
    return here if isinstance(here, OnTheLoop) else None
