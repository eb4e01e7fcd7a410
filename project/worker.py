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
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import TConn, ThreadWorker

from project.settings import DATA_UPLOAD_MAX_MEMORY_SIZE

RECEIVE_TIMEOUT = 5.0  # seconds for a request to be complete, from its connection or first byte
SEND_TIMEOUT = 10  # seconds in which a client has to take some of the response
QUEUE_PER_THREAD = 8  # requests that may wait for each thread: with 16 threads some 0.2 s of work
RETRY_AFTER = 1  # seconds
LONGEST_HEADER = 64 * 1024  # gunicorn's limits on it allow no more
RECEIVE_SIZE = 64 * 1024
# Seconds for which a thread runs Python while another one wants to. By default, 5 ms, the main loop
# waits so long at each step of a refusal, while threads wait for their answers: under overload, a
# fifth to a half of the goodput was lost.
SWITCH_INTERVAL = 0.0005
ACCEPTS = 64  # connections taken before the main loop looks after the others again

PROBE = re.compile(rb"(?:GET|HEAD) /(healthz|readyz) ")
# No more digits than any length here has; what has more is too long already.
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:[ \t]*0*([0-9]{1,9})", re.IGNORECASE)
TRANSFER_ENCODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
# gunicorn and Django would take the address of the listening socket for the host.
HTTP_1_1 = re.compile(rb"(?:\r\n)?[^\r]* HTTP/1\.1\r\n")
HOST = re.compile(rb"\r\nhost[ \t]*:", re.IGNORECASE)
EXPECT_CONTINUE = re.compile(rb"\r\nexpect[ \t]*:[ \t]*100-continue", re.IGNORECASE)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def answer(status: HTTPStatus, detail: str) -> bytes:
    """Return the whole response that says so and closes the connection."""
    body = f"{detail}\n".encode()
    retry = f"Retry-After: {RETRY_AFTER}\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
    return (
        f"HTTP/1.1 {status} {status.phrase}\r\n{retry}Cache-Control: no-store\r\n"
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode() + body


OVERLOADED = answer(HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests at the moment: try again.")
TOO_SLOW = answer(
    HTTPStatus.REQUEST_TIMEOUT,
    f"The request was not complete within {RECEIVE_TIMEOUT:.0f} seconds.",
)
TOO_LONG = answer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"The header is too long: send at most {LONGEST_HEADER:,} bytes.",
)
CUT_OFF = answer(HTTPStatus.BAD_REQUEST, "The request ended before it was complete.")
NO_HOST = answer(HTTPStatus.BAD_REQUEST, "Send the Host header, which HTTP/1.1 requires.")
NO_LENGTH = answer(
    HTTPStatus.LENGTH_REQUIRED, "Send the body with a Content-Length, not in chunks."
)


class Connection(TConn):  # type: ignore[misc]
    """A client's connection, and what has been received of its next request."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.received = bytearray()
        self.deadline = 0.0  # by which the request has to be complete
        self.queued_at = 0.0
        self.whole = False  # whether the body has been received, too
        self.probe = ""  # which one it asks for, if any
        self.ended = False  # whether it was answered, and what still comes is thrown away
        self.data_ready = True  # for gthread, which would wait for the first byte

    def init(self) -> None:
        """Get ready for a thread, which reads what has been received."""
        if not self.initialized:
            super().init()
            limit = struct.pack("ll", SEND_TIMEOUT, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self.parser.unreader.unread(bytes(self.received))
        self.received.clear()

    def receive(self) -> bool:
        """Read what has come, if anything; return False when the client has gone."""
        try:
            data = self.sock.recv(RECEIVE_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received += data
        return bool(data)

    def refusal(self) -> bytes | None:
        """Return None for a request that is complete, b"" for one that is not yet, or a refusal."""
        end = self.received.find(b"\r\n\r\n") + 4
        if end < 4:
            return TOO_LONG if len(self.received) > LONGEST_HEADER else b""
        if TRANSFER_ENCODING.search(self.received, 0, end):
            return NO_LENGTH
        if HTTP_1_1.match(self.received) and not HOST.search(self.received, 0, end):
            return NO_HOST
        length = CONTENT_LENGTH.search(self.received, 0, end)
        rest = int(length[1]) if length else 0
        self.whole = len(self.received) >= end + rest
        if self.whole or rest > DATA_UPLOAD_MAX_MEMORY_SIZE:  # refused unread by the application
            return None
        if expects := EXPECT_CONTINUE.search(self.received, 0, end):
            del self.received[slice(*expects.span())]  # or gunicorn would say so, too
            self.say(CONTINUE)
        return b""

    def say(self, text: bytes) -> None:
        """Send a few bytes without waiting; a client that takes none of them gets none."""
        with suppress(OSError):
            self.sock.setblocking(False)
            self.sock.send(text)


class BoundedWorker(ThreadWorker):  # type: ignore[misc]
    """gthread, whose threads get complete requests only, and no more than they can answer soon."""

    # Seconds after which a request that has waited is refused, and not begun: QUEUE_TIMEOUT_MS.
    queue_timeout = 0.5

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving: dict[Connection, None] = {}  # in the order of their deadlines
        self.submitted = 0  # requests in the queue and in the threads
        self.most_submitted = self.cfg.threads * (1 + QUEUE_PER_THREAD)

    def init_process(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        # A thread for each probe, so that it is answered under any load, and so that the one that
        # asks the database, which may be frozen, does not stand in the other one's way.
        self.probes = {name: ThreadPoolExecutor(max_workers=1) for name in ("healthz", "readyz")}
        super().init_process()

    def accept(self, listener: socket.socket) -> None:
        """Accept the connections that wait, and take what they have sent already."""
        for _ in range(ACCEPTS):
            if self.nr_conns >= self.worker_connections:
                return
            try:
                client, address = listener.accept()
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                    raise
                return
            self.nr_conns += 1
            conn = Connection(self.cfg, client, address, listener.getsockname())
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
        if refusal is None and not conn.probe and self.submitted >= self.most_submitted:
            refusal = OVERLOADED
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
        if not conn.probe and time.monotonic() - conn.queued_at > self.queue_timeout:
            conn.say(OVERLOADED)
            return False
        return bool(super().handle(conn))

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        # What is left of a body that was not received is not waited for: the connection ends.
        return conn.whole and super()._keepalive_after(conn, keepalive)

    def finish_request(self, conn: Connection, future: Any) -> None:
        """Wait for the next request, of which some may have come with this one."""
        self.submitted -= not conn.probe
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
