"""A client's connection: what has come of its next request, and what no thread is needed for."""

import re
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gunicorn.workers.gthread import TConn

from project import quick_sockets
from project.settings import DATA_UPLOAD_MAX_MEMORY_SIZE

RECEIVE_TIMEOUT = 5.0  # seconds for a request to be complete, from its connection or first byte
SEND_TIMEOUT = 10  # seconds in which a client has to take some of the response
RETRY_AFTER = 1  # seconds
LONGEST_HEADER = 64 * 1024  # gunicorn's limits on it allow no more

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
        self.has_body = False  # whether it says how long one is
        self.whole = False  # whether the body has been received, too
        self.watched = False  # whether the main loop is told when something comes
        self.is_asking = False  # whether its request waits for a thread, or for its answer
        self.outgoing = bytearray()  # what is answered, and not sent yet
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

    @property
    def is_idle(self) -> bool:
        """Whether all is sent, and the main loop is told when the next request comes."""
        return self.watched and not self.outgoing and not self.received

    def receive(self) -> bool:
        """Read what has come, if anything; return False when the client has gone."""
        try:
            data = quick_sockets.receive(self.sock)
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
        self.has_body = length is not None
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
            self.sock.send(text, socket.MSG_DONTWAIT)

    def sendall(self, data: bytes) -> None:
        """Keep what flush() is to send; for gunicorn, which writes to this as to a socket."""
        self.outgoing += data

    send = sendall

    def gettimeout(self) -> float:
        """Return that writing to this does not wait."""
        return 0.0

    def flush(self, *, wait: bool = False) -> bool:
        """Send what was kept; return whether the client takes it.

        What it does not take at once is still in `outgoing`, unless told to wait: SEND_TIMEOUT.
        """
        try:
            if wait:
                self.sock.sendall(self.outgoing)
                self.outgoing.clear()
            while self.outgoing:
                del self.outgoing[: quick_sockets.send(self.sock, bytes(self.outgoing))]
        except OSError as error:
            if isinstance(error, BlockingIOError) and not wait:
                return True
            self.outgoing.clear()
            return False
        return True
