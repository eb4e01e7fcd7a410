"""How long a request waits for PostgreSQL, limited on this side of the connection.

PostgreSQL's own limits do not help when PostgreSQL is frozen or the network loses packets: libpq
then waits for ever. psycopg2 can call a function that waits. The one here has a deadline, which
costs a statement 3 µs of processor time. A connection whose answer is late is closed, because the
late answer would be taken for that of the next statement.
"""

import math
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

_deadline: ContextVar[float] = ContextVar(
    "deadline", default=math.inf
)  # as time.monotonic() has it


def install() -> None:
    """Have psycopg2 call wait() for all connections of this process."""
    extensions.set_wait_callback(wait)


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Limit all that this thread or greenlet waits for PostgreSQL in the block; 0 is no limit.

    A longer wait raises psycopg2's OperationalError and closes the connection. A block within
    another one can only shorten the limit.
    """
    before = _deadline.get()
    _deadline.set(min(before, time.monotonic() + seconds if seconds else math.inf))
    try:
        yield
    finally:
        _deadline.set(before)


def wait(connection: Any) -> None:
    """Return when the statement is answered; raise OperationalError at the deadline."""
    state = connection.poll()
    if state == extensions.POLL_OK:
        return
    deadline = _deadline.get()
    if connection.status not in ESTABLISHED:
        connect(connection, state, deadline)
        return
    while state != extensions.POLL_OK:
        if not ready(connection.fileno(), state, deadline):
            raise unanswered()
        state = connection.poll()


def connect(connection: Any, state: int, deadline: float) -> None:
    """Wait for a new connection, each of its addresses for connect_timeout, as libpq does.

    libpq does not look at that parameter when somebody else does the waiting. It goes on to the
    next address of the host, or the next host, when the socket of this one is shut down.
    """
    parameters = extensions.parse_dsn(connection.dsn)
    timeout = int(parameters.get("connect_timeout", 0))
    patience = timeout if timeout > 0 else math.inf
    expired = False
    while state != extensions.POLL_OK:
        if not ready(connection.fileno(), state, min(deadline, time.monotonic() + patience)):
            if time.monotonic() >= deadline:
                raise unanswered()
            expired = True
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as address:
                address.shutdown(socket.SHUT_RDWR)
        try:
            state = connection.poll()
        except OperationalError as error:
            # psycopg2 leaves out whom it could not connect to.
            host, port = (parameters.get(name, "(default)") for name in ("host", "port"))
            reason = "timeout expired" if expired else str(error).strip()
            raise OperationalError(
                f'connection to server at "{host}", port {port} failed: {reason}'
            ) from error


def ready(fileno: int, state: int, deadline: float) -> bool:
    """Return whether the socket can be read or written, as `state` asks, before the deadline."""
    seconds = max(0, deadline - time.monotonic())
    if here := greenlets.current():
        wait = here.readable if state == extensions.POLL_READ else here.writable
        return wait(fileno, seconds)
    poll = select.poll()
    poll.register(fileno, EVENTS[state])
    return bool(poll.poll(None if seconds == math.inf else seconds * 1000))


def unanswered() -> OperationalError:
    """Return the error for a request that has waited as long as it may."""
    return OperationalError("PostgreSQL has not answered within the time limit of the request")
