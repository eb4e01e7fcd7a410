"""A time limit for a thread that waits for PostgreSQL, by the clock of this machine.

PostgreSQL ends a statement that runs too long. It cannot do so while it is frozen or the network
loses its packets, and libpq, the driver's library, then waits for ever.

So gunicorn.py gives wait_for_answer() to the driver, which calls it for every wait: for a
connection and for the answer to a statement. libpq's own connect_timeout has no effect then. At the
deadline of limit_waits() the driver raises OperationalError and closes the connection. An open one
would take the late answer for that to its next statement.
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

# The time.monotonic() at which waits of this thread end.
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Set the deadline of the block's waits for PostgreSQL, some seconds from now; 0 sets none.

    A wait at the deadline raises psycopg2's OperationalError and closes the connection. Of nested
    blocks, the earliest deadline holds.
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
    """Return whether PostgreSQL has closed an idle connection of the driver. None is not closed.

    A closed connection has something to read: the server's last message, or the end of the stream.
    An open one has nothing to read. A rare notice of the server is taken for an end, which costs
    one more connect.
    """
    if connection is None:
        return False
    return bool(connection.closed) or is_ready(connection, select.POLLIN, 0)


def is_ready(connection: Any, events: int, seconds: float) -> bool:
    """Wait until the socket can be read or written; return False if some seconds pass first."""
    poll = select.poll()
    poll.register(connection.fileno(), events)
    return bool(poll.poll(None if seconds == math.inf else seconds * 1000))
