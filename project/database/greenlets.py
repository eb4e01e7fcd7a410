"""Run functions that use the database on the event loop, without blocking it.

Each function runs in a greenlet. When psycopg2 has to wait, the greenlet switches to the event
loop, which resumes it when the connection can be read. So a strategy stays a plain function, and
its statement needs no thread. The way to a thread and back would take as long as the statement.

On an event loop Django keeps connections by context. Each greenlet has a context, and so a
connection. It runs one function after another, as a new greenlet for each would take longer.
"""

import asyncio
import os
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from greenlet import getcurrent, greenlet


class OnTheLoop(greenlet):  # type: ignore[misc]
    """Runs functions on the event loop, one after another."""

    def __init__(self, greenlets: "Greenlets") -> None:
        super().__init__()
        self.gr_context = Context()
        self.loop, self.free, self.session = greenlets.loop, greenlets.free, greenlets.session
        # The connection that is watched, also between statements: starting and stopping takes
        # several system calls. The socket is a copy of its file descriptor. psycopg2 may close its
        # own one at any time, and the number could then belong to another socket.
        self.connection: Any = None
        self.socket = -1
        self.reads = False

    def run(self, result: "asyncio.Future[Any]", function: Callable[..., Any]) -> None:
        """Run the function; then be free until there is another one."""
        call = self.session(self)
        while True:
            try:
                result.set_result(call(function))
            except Exception as error:
                result.set_exception(error)
            if self.connection and self.connection.closed:
                self.forget()  # or PostgreSQL would not see that it is closed
            self.free.append(self)
            result, function = self.parent.switch()

    def readable(self, connection: Any, seconds: float) -> bool:
        """Wait until the connection can be read; return False when that takes longer."""
        if connection is not self.connection:
            self.forget()
            self.connection, self.socket = connection, os.dup(connection.fileno())
            self.loop.add_reader(self.socket, self.arrived)
        self.reads = True
        in_time = self.switched_within(seconds)
        self.reads = False
        return in_time

    def arrived(self) -> None:
        """Resume the function that reads. Without one, stop: a closed connection stays readable."""
        if not self.reads:
            self.forget()
            return
        self.switch(True)
        if self.reads:  # uvloop stops watching after an error
            self.loop.remove_reader(self.socket)
            self.loop.add_reader(self.socket, self.arrived)

    def forget(self) -> None:
        """Stop watching the connection, if any."""
        if self.connection:
            self.loop.remove_reader(self.socket)
            os.close(self.socket)
            self.connection = None

    def writable(self, connection: Any, seconds: float) -> bool:
        """Wait until the connection can be written; return False when that takes longer."""
        self.loop.add_writer(connection.fileno(), self.switch, True)
        in_time = self.switched_within(seconds)
        self.loop.remove_writer(connection.fileno())
        return in_time

    def switched_within(self, seconds: float) -> bool:
        late = self.loop.call_later(seconds, self.switch, False)
        in_time: bool = self.parent.switch()
        late.cancel()
        return in_time

    def in_thread(self, function: Callable[[], Any]) -> None:
        """Wait until a thread has run a blocking function in this context, with its time limit."""
        done = self.loop.run_in_executor(None, copy_context().run, function)
        done.add_done_callback(self.switch)
        self.parent.switch()
        done.result()


class Greenlets:
    """Starts functions on the running event loop. Nothing limits how many run at a time.

    Each greenlet passes itself to `session` once. What that returns is called with each function.
    """

    def __init__(self, session: Callable[[OnTheLoop], Callable[[Callable[..., Any]], Any]]) -> None:
        self.loop, self.session = asyncio.get_running_loop(), session
        self.free: list[OnTheLoop] = []

    def run(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        """Start a function; the future gets its result or exception."""
        result: asyncio.Future[Any] = self.loop.create_future()
        one = self.free.pop() if self.free else OnTheLoop(self)
        one.switch(result, partial(function, *arguments))
        return result


def current() -> OnTheLoop | None:
    """Return the caller's greenlet; None in a thread."""
    here = getcurrent()
    return here if isinstance(here, OnTheLoop) else None
