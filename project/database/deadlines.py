"""A time limit on the waits of a request for PostgreSQL, by the client's clock.

PostgreSQL's own limits do not help when PostgreSQL is frozen or the network loses packets: libpq
then waits for ever. psycopg2 can call a function that waits in its place. The function here has a
deadline. A connection whose answer is late is closed, because the next statement would take the
late answer for its own.
"""

import math
import os
import select
import socket
import time
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from typing import Any

from psycopg2 import OperationalError, extensions

from project.database import greenlets

EVENTS = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}
ESTABLISHED = {
    extensions.STATUS_READY,
    extensions.STATUS_BEGIN,
    extensions.STATUS_PREPARED,
}

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)  # by time.monotonic()


def install() -> None:
    """Have psycopg2 call wait() for all connections of this process."""
    extensions.set_wait_callback(wait)


class answered_within(AbstractContextManager[None]):  # noqa: N801 - used like a function
    """Limit the total wait of this thread or greenlet for PostgreSQL in the block; 0 is no limit.

    A longer wait raises psycopg2's OperationalError and closes the connection. A nested block can
    only shorten the limit. Each statement of redirects enters one, and a generator would take
    longer than a class.
    """

    def __init__(self, seconds: float) -> None:
        self.ends = time.monotonic() + seconds if seconds else math.inf

    def __enter__(self) -> None:
        self.before = _deadline.get()
        _deadline.set(min(self.before, self.ends))

    def __exit__(self, *_: object) -> None:
        _deadline.set(self.before)


def wait(connection: Any) -> None:
    """Return when the statement is answered; raise OperationalError at the deadline."""
    state = connection.poll()
    if state == extensions.POLL_OK:
        return
    deadline = _deadline.get()
    if connection.status not in ESTABLISHED:
        # Django connects again after a transaction that has lost its connection. libpq would block
        # the event loop, so the session of redirects connects in a thread, for the next statement.
        if greenlets.current():
            raise OperationalError("the connection was lost in a transaction")
        connect(connection, state, deadline)
        return
    while state != extensions.POLL_OK:
        if not ready(connection, state, deadline):
            raise unanswered()
        state = connection.poll()


def connect(connection: Any, state: int, deadline: float) -> None:
    """Wait for a new connection, at most connect_timeout for each of its addresses.

    libpq ignores that parameter when the application does the waiting. It goes on to the next
    address of the host, or the next host, when the socket of this one is shut down.
    """
    parameters = extensions.parse_dsn(connection.dsn)
    timeout = int(parameters.get("connect_timeout", 0))
    patience = timeout if timeout > 0 else math.inf
    expired = False
    while state != extensions.POLL_OK:
        if not ready(connection, state, min(deadline, time.monotonic() + patience)):
            if time.monotonic() >= deadline:
                raise unanswered()
            expired = True
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as address:
                address.shutdown(socket.SHUT_RDWR)
        try:
            state = connection.poll()
        except OperationalError as error:
            # psycopg2's message leaves out the address.
            host, port = (parameters.get(name, "(default)") for name in ("host", "port"))
            reason = "timeout expired" if expired else str(error).strip()
            raise OperationalError(
                f'connection to server at "{host}", port {port} failed: {reason}'
            ) from error


def ready(connection: Any, state: int, deadline: float) -> bool:
    """Return whether the connection can be read or written, as `state` asks, in time."""
    seconds = max(0, deadline - time.monotonic())
    if here := greenlets.current():
        wait = here.readable if state == extensions.POLL_READ else here.writable
        return wait(connection, seconds)
    poll = select.poll()
    poll.register(connection.fileno(), EVENTS[state])
    return bool(poll.poll(None if seconds == math.inf else seconds * 1000))


def unanswered() -> OperationalError:
    return OperationalError("PostgreSQL has not answered within the time limit of the request")


def is_closed(connection: Any) -> bool:
    """Return whether PostgreSQL has closed the idle connection of the driver; None is not closed.

    This asks the kernel, so it takes no round trip. A closed connection has something to read: the
    server's last message, or the end of the stream. An open idle connection has nothing to read but
    a rare notice, which costs one more connect.
    """
    if connection is None:
        return False
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
