"""Clients that connect, send nothing, a part of a request or many of them, and then wait."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from loadtests.faults.experiment import Experiment
from loadtests.faults.outcome import MARGIN, QUICK, RECEIVE_TIMEOUT, SEND_TIMEOUT, Figure

POLL_INTERVAL = 0.1  # seconds
OPEN = RECEIVE_TIMEOUT + 1  # seconds for which connections stay that the service does not close
THREADS = 10  # that the load itself may need meanwhile

HALF_HEADER = b"GET / HTTP/1.1\r\nHost: loc"
HALF_BODY = (
    b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"target_url": "https://example.com/'
)
LAST_REQUEST = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"  # its answer ends the connection
# 177 KB, more than the buffers between the service and a client have room for.
BIG_FILE = b"GET /static/ninja/swagger-ui.css HTTP/1.1\r\nHost: localhost\r\n\r\n"


class SlowClient(socket.socket):
    """A client that waits for nothing; `data` is what it sends, `answer` what it has read."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data, self.answer = data, b""

    def asks(self) -> bool:
        """Send the data, if there is room for it; return whether the connection is open."""
        with suppress(BlockingIOError):
            try:
                self.send(self.data)
            except ConnectionError:
                return False
        return True

    def reads(self) -> bool:
        """Read what has come; return whether the connection is open."""
        with suppress(BlockingIOError):
            try:
                while data := self.recv(4096):
                    self.answer += data
            except ConnectionError:
                pass
            return False
        return True


@contextmanager
def connected(experiment: Experiment, number: int, data: bytes) -> Iterator[list[SlowClient]]:
    """Have so many clients for the length of the block, each of which has sent `data`."""
    address = urlsplit(experiment.place.urls[0])
    with ExitStack() as opened:
        clients = [opened.enter_context(SlowClient(data)) for _ in range(number)]
        for client in clients:
            client.connect((address.hostname, address.port))
            client.setblocking(False)
            client.asks()
        yield clients


def left_open(experiment: Experiment, data: bytes) -> Iterator[Figure]:
    """Leave 500 connections open for a while, many more than there are threads."""

    def threads() -> int:
        return sum(worker.num_threads() for worker in experiment.master.children())

    before = threads()
    with connected(experiment, 500, data):
        experiment.go_on(OPEN)
        yield Figure("more threads", threads() - before, THREADS)


def closed(
    experiment: Experiment,
    data: bytes,
    is_open: Callable[[SlowClient], bool] = SlowClient.reads,
    *,
    within: float = RECEIVE_TIMEOUT,
    status: bytes = b"",
) -> Iterator[Figure]:
    """Wait until the service has closed 200 connections, which has to be within so many seconds.

    `is_open` is called for each ten times a second. With `status`, each has to have that answer.
    """
    with connected(experiment, 200, data) as clients:
        waiting = clients

        def all_closed() -> bool:
            nonlocal waiting
            experiment.go_on(POLL_INTERVAL)
            waiting = [client for client in waiting if is_open(client)]
            return not waiting

        took = experiment.wait(all_closed, "the connections are not closed")
        yield Figure("all closed after", took, within + 2 * MARGIN, " s")
    if status:
        others = sum(not client.answer.startswith(b"HTTP/1.1 " + status) for client in clients)
        yield Figure(f"without a {status.decode()}", others, 0)


def unread(experiment: Experiment) -> Iterator[Figure]:
    """Ask for a file on 200 connections, ten times a second, without reading any of it."""
    return closed(experiment, BIG_FILE, SlowClient.asks, within=QUICK + SEND_TIMEOUT)
