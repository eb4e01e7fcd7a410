"""Functions that use the database, run on the event loop, which goes on while PostgreSQL works.

Each runs in a greenlet. Where psycopg2 has to wait, the greenlet hands over to the event loop,
which resumes it when the connection can be read. So a strategy stays a plain function, and its
statement needs no thread: the way to a thread and back takes as long as the statement.

On an event loop Django keeps connections by context. Each function gets a context that no other one
uses at the time, and so a connection of its own.
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
        """Wait until a thread has run a function that blocks, such as one that looks up a host."""
        done = self.loop.run_in_executor(None, function)
        done.add_done_callback(self.switch)
        self.parent.switch()
        done.result()


class Greenlets:
    """Runs functions of one event loop, as many at a time as are started."""

    def __init__(self) -> None:
        self.free: list[Context] = []  # each with its connection

    def run(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Start a function; the future has what it returns or raises."""
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
    """Return the greenlet in which the caller runs; None in a thread."""
    here = getcurrent()
    return here if isinstance(here, OnTheLoop) else None
