"""What the main loop of a worker does: it reads requests, and closes connections that are late."""

import errno
import re
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from project import quick_sockets
from project.connection import CUT_OFF, OVERLOADED, RECEIVE_TIMEOUT, TOO_SLOW, Connection

# Connections taken before the main loop looks after the others again. Another thread may have its
# turn in between: so they are many, or those that wait in the kernel get too many there.
ACCEPTS = 512

GONE = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.ENOTCONN)  # or none has come
PROBE = re.compile(rb"(?:GET|HEAD) /(healthz|readyz|metrics) ")
BODILESS = (b"GET ", b"HEAD ")  # the methods of requests that end with their header


class ReceivingWorker(ThreadWorker):  # type: ignore[misc]
    """gthread, whose main loop reads a request until it is complete, and then submits it."""

    # Told of each request that is refused for want of a thread.
    on_refusal: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving: dict[Connection, None] = {}  # in the order of their deadlines

    @property
    def is_full(self) -> bool:
        """Whether as many requests are submitted as can be answered soon."""
        raise NotImplementedError

    def submit(self, conn: Connection) -> None:
        """Have a complete request answered; finish_answered() then looks after the connection."""
        raise NotImplementedError

    def finish_answered(self) -> None:
        """Look after the connections whose requests are answered."""
        raise NotImplementedError

    def accept(self, listener: socket.socket) -> None:
        """Accept the connections that wait, and take what they have sent already."""
        for _ in range(ACCEPTS):
            if self.nr_conns >= self.worker_connections:
                return
            data = b""
            try:
                if self.is_full:
                    waiting = quick_sockets.accept(listener)
                    if waiting is None:
                        return
                    descriptor, data = waiting
                    whole = data.startswith(BODILESS) and data.endswith(b"\r\n\r\n")
                    if whole and not PROBE.match(data):
                        quick_sockets.refuse(descriptor, OVERLOADED)
                        self.on_refusal()
                        continue
                    client, address = quick_sockets.keep(descriptor)
                else:
                    client, address = listener.accept()
            except OSError as error:
                if error.errno not in GONE:
                    raise
                return
            self.nr_conns += 1
            conn = Connection(self.cfg, client, address, listener.getsockname())
            conn.received += data
            self.await_request(conn)

    def await_request(self, conn: Connection) -> None:
        """Begin to wait for a request, of which some may be there."""
        conn.deadline = time.monotonic() + RECEIVE_TIMEOUT
        conn.whole = False
        self.receive(conn)

    def receive(self, conn: Connection) -> None:
        """Read what has come, and hand the request to a thread when it is complete."""
        has_come = conn.received and not conn.ended and conn.refusal() is None  # with the last one
        if not has_come and not conn.receive():
            self.drop(conn, CUT_OFF if conn.received else b"")
            return
        if conn.ended:
            conn.received.clear()
        refusal = conn.refusal()
        probe = PROBE.match(conn.received)
        conn.probe = probe[1].decode() if probe else ""
        if refusal is None and not conn.probe and self.is_full:
            refusal = OVERLOADED
            self.on_refusal()
        if refusal is None:
            self.submit(conn)
        elif refusal:
            conn.say(refusal)
            self.end(conn)
        elif conn not in self.receiving:
            self.receiving[conn] = None
            self.watch(conn)

    def watch(self, conn: Connection) -> None:
        """Be told when something comes: all the time, unless it comes before an answer."""
        if not conn.watched:
            conn.watched = True
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_readable, conn))

    def unwatch(self, conn: Connection) -> None:
        """Be told no more."""
        if conn.watched:
            conn.watched = False
            self.poller.unregister(conn.sock)

    def on_readable(self, conn: Connection, _client: socket.socket) -> None:
        """Take what has come, unless it is for after the answer."""
        if conn.is_asking:
            self.unwatch(conn)
            self.finish_answered()  # as who has just answered it may not have seen that
        elif conn in self.receiving:
            self.receive(conn)
        elif conn.watched:  # and not closed since it came
            self.keepalived_conns.remove(conn)
            self.await_request(conn)

    def murder_pending(self) -> None:
        """Close the connections whose request has not come in time."""
        now = time.monotonic()
        for conn in list(self.receiving):
            if conn.deadline > now:
                break
            self.drop(conn, TOO_SLOW if conn.received else b"")

    def forget(self, conn: Connection) -> None:
        """Stop waiting for a connection's request."""
        self.receiving.pop(conn, None)
        self.unwatch(conn)

    def end(self, conn: Connection) -> None:
        """Close a connection that was answered; one whose client still sends, when it has ended.

        Closed before, it would be reset, and the client might not see the answer.
        """
        self.forget(conn)
        with suppress(OSError):  # as the client has gone
            if not conn.whole:
                conn.sock.shutdown(socket.SHUT_WR)
                conn.ended = True
                conn.received.clear()
                self.await_request(conn)
                return
        self.drop(conn)

    def drop(self, conn: Connection, response: bytes = b"") -> None:
        """Close a connection, with a few bytes of explanation."""
        self.forget(conn)
        if response:
            conn.say(response)
        self.nr_conns -= 1
        util.close(conn.sock)
