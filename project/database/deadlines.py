"""A time limit on the waits of a thread for PostgreSQL, by the client's clock.

PostgreSQL's own limits do not help when PostgreSQL is frozen or the network loses packets: libpq
then waits for ever. In a worker psycopg2 calls wait_for_answer() in its place. A connection whose
answer is late is closed, because the next statement would take the late answer for its own.
"""

import math
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from psycopg2 import OperationalError, extensions

EVENTS = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)  # by time.monotonic()


@contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Limit the total wait of this thread for PostgreSQL in the block; 0 is no limit.

    A longer wait raises psycopg2's OperationalError and closes the connection. A nested block can
    only shorten the limit.
    """
    outer_deadline = _deadline.get()
    deadline = time.monotonic() + seconds if seconds else math.inf
    _deadline.set(min(outer_deadline, deadline))
    try:
        yield
    finally:
        _deadline.set(outer_deadline)


def wait_for_answer(connection: Any) -> None:
    """Wait until the connection has its answer; raise OperationalError at the deadline."""
    while (state := connection.poll()) != extensions.POLL_OK:
        seconds = max(0, _deadline.get() - time.monotonic())
        if not is_ready(connection, EVENTS[state], seconds):
            raise OperationalError(
                "PostgreSQL has not answered within the time limit of the request"
            )


def is_closed(connection: Any) -> bool:
    """Return whether PostgreSQL has closed the idle connection of the driver; None is not closed.

    A closed connection has something to read: the server's last message, or the end of the stream.
    An open idle connection has nothing to read but a rare notice, which costs one more connect.
    """
    if connection is None:
        return False
    return bool(connection.closed) or is_ready(connection, select.POLLIN, 0)


def is_ready(connection: Any, events: int, seconds: float) -> bool:
    """Return whether the socket is ready within some seconds."""
    poll = select.poll()
    poll.register(connection.fileno(), events)
    return bool(poll.poll(None if seconds == math.inf else seconds * 1000))
