"""A gunicorn worker that bounds every wait: gthread, with whole requests and a bounded queue.

gunicorn's own gthread hands a connection to a thread as soon as it has said anything, and the
thread then waits for the rest of the request, however slowly it comes: as many half-sent headers
as there are threads stop the service. And its queue for the threads has no end, so that under
overload every request is answered after its client has left. Here the main loop, which waits for
all connections at once, reads the request until it is complete; a thread only ever gets a whole
one, and only if it can be answered in time. The others get a 503 at once.
"""

import errno
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker

from project import quick_refusal
from project.connection import (
    CUT_OFF,
    OVERLOADED,
    RECEIVE_TIMEOUT,
    TOO_SLOW,
    Connection,
)

QUEUE_PER_THREAD = 8  # requests that may wait for each thread: with 12 threads some 0.2 s of work
ACCEPTS = 64  # connections taken before the main loop looks after the others again

GONE = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED, errno.ENOTCONN)  # or none has come
PROBE = re.compile(rb"(?:GET|HEAD) /(healthz|readyz|metrics) ")
BODILESS = (b"GET ", b"HEAD ")  # the methods of requests that end with their header


class BoundedWorker(ThreadWorker):  # type: ignore[misc]
    """gthread, whose threads get complete requests only, and no more than they can answer soon."""

    # Seconds after which a request that has waited is refused, and not begun: QUEUE_TIMEOUT_MS.
    queue_timeout = 0.5
    # Told of each request that is refused for want of a thread.
    on_refusal: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving: dict[Connection, None] = {}  # in the order of their deadlines
        self.submitted = 0  # requests given to the threads that finish_request() has not seen yet
        # One for each of them that a thread is done with: a busy main loop hears of it late, and
        # must not refuse the next request of a client for the last one of the same client.
        self.answered: deque[None] = deque()
        self.most_submitted: int = self.cfg.threads * (1 + QUEUE_PER_THREAD)

    def init_process(self) -> None:
        # A thread for each probe, so that it is answered under any load, and so that the one that
        # asks the database, which may be frozen, does not stand in the other one's way.
        self.probes = {
            name: ThreadPoolExecutor(max_workers=1) for name in ("healthz", "readyz", "metrics")
        }
        super().init_process()

    @property
    def is_full(self) -> bool:
        """Whether as many requests are submitted as can be answered soon."""
        return self.submitted - len(self.answered) >= self.most_submitted

    def accept(self, listener: socket.socket) -> None:
        """Accept the connections that wait, and take what they have sent already."""
        for _ in range(ACCEPTS):
            if self.nr_conns >= self.worker_connections:
                return
            data = b""
            try:
                if self.is_full:
                    waiting = quick_refusal.accept(listener)
                    if waiting is None:
                        return
                    descriptor, data = waiting
                    whole = data.startswith(BODILESS) and data.endswith(b"\r\n\r\n")
                    if whole and not PROBE.match(data):
                        quick_refusal.refuse(descriptor, OVERLOADED)
                        self.on_refusal()
                        continue
                    client, address = quick_refusal.keep(descriptor)
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
        conn.sock.setblocking(False)
        self.receive(conn, conn.sock)

    def receive(self, conn: Connection, _sock: object) -> None:
        """Read what has come, and hand the request to a thread when it is complete."""
        if not conn.receive():
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
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.receive, conn))

    def submit(self, conn: Connection) -> None:
        """Queue a complete request for a thread."""
        self.forget(conn)
        conn.init()
        conn.queued_at = time.monotonic()
        self.submitted += not conn.probe
        pool: Any = self.probes.get(conn.probe, self.tpool)
        future = pool.submit(self.handle, conn)
        future.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, conn, done)
        )

    def handle(self, conn: Connection) -> bool:
        """Answer a request; in a thread."""
        if conn.probe:
            return bool(super().handle(conn))
        try:
            if time.monotonic() - conn.queued_at > self.queue_timeout:
                conn.say(OVERLOADED)
                self.on_refusal()
                return False
            return bool(super().handle(conn))
        finally:
            self.answered.append(None)

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        # What is left of a body that was not received is not waited for: the connection ends.
        return conn.whole and super()._keepalive_after(conn, keepalive)

    def finish_request(self, conn: Connection, future: Any) -> None:
        """Wait for the next request, of which some may have come with this one."""
        if not conn.probe:
            self.submitted -= 1
            if not future.cancelled():
                self.answered.pop()
        keep = not future.cancelled() and future.exception() is None and future.result()
        if not keep:
            self.end(conn)  # for gunicorn's own way everybody would wait until this client closes
        elif rest := conn.parser.unreader.take_buffered():
            conn.received += rest
            self.await_request(conn)
        else:
            super().finish_request(conn, future)

    def on_client_socket_readable(self, conn: Connection, client: socket.socket) -> None:
        """Take the next request of a connection that was kept alive."""
        self.poller.unregister(client)
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
        if conn in self.receiving:
            del self.receiving[conn]
            self.poller.unregister(conn.sock)

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
