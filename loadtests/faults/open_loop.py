"""An open load: requests arrive at a fixed rate, even if earlier ones are not answered yet.

Each request has a new connection. One thread sends all of them and waits for all answers at once,
so a slow service does not change the rate.
"""

import os
import resource
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loadtests.faults.experiment import QUICK, Experiment, Figure

SECONDS = 5  # for which requests arrive at a rate
CLIENT_TIMEOUT = 5  # seconds
LEAST_GOODPUT = 70  # percent of the goodput at the capacity
FIRST_RATE = 200.0  # requests/s
OPEN_FILES = 20_000
BATCH = 50  # connections opened between two looks at the answers
# The client closes an answered connection by a reset. That takes the least processor time, which
# client and service share.
RESET = struct.pack("ii", 1, 0)


@dataclass
class OfferedLoad:
    """The result of requests that arrived at a rate; `waits` has the seconds of each redirect."""

    sent: int = 0
    seconds: float = 0.0  # for which they arrived
    statuses: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    client: float = 0.0  # processor time of the client, in seconds
    usual: float = 0.0  # goodput at the capacity, right before and after

    @property
    def taken(self) -> float:
        """The share of the machine's processors that the client took from the service."""
        return self.client / self.seconds / (os.cpu_count() or 1)

    @property
    def kept(self) -> float:
        """The goodput as a share of the usual one, on the processors that the client left."""
        return self.goodput / (self.usual * (1 - self.taken))

    @property
    def goodput(self) -> float:
        """The redirects per second."""
        return self.statuses["302"] / self.seconds

    @property
    def failed(self) -> int:
        return self.sent - self.statuses["302"] - self.statuses["503"]

    def quantile(self, share: float) -> float:
        """Return the seconds within which this share of the redirects came; 0 without any."""
        return sorted(self.waits)[int(share * (len(self.waits) - 1))] if self.waits else 0.0


def overload(
    experiment: Experiment, multiples: Sequence[int], *, bounded: bool = True
) -> Iterator[Figure]:
    """Offer multiples of the capacity; yield the figures.

    The goodput always has a limit. With `bounded` the answers have limits, too: on their time, and
    each request has to get one.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))
    capacity = find_capacity(experiment)
    before = offer(experiment, capacity).goodput
    for multiple in multiples:
        load = offer(experiment, multiple * capacity)
        # The speed of a shared machine changes from minute to minute.
        after = offer(experiment, capacity).goodput
        load.usual, before = (before + after) / 2, after
        name, slow = f"{multiple} ×:", QUICK if bounded else None
        yield Figure(f"{name} goodput", 100 * load.kept, LEAST_GOODPUT, " %", least=True)
        yield Figure(f"{name} p99 of the answered", load.quantile(0.99), slow, " s")
        yield Figure(f"{name} without an answer", load.failed, 0 if bounded else None)


def find_capacity(experiment: Experiment) -> float:
    """Double the rate until the goodput no longer grows; return the best, in redirects/s."""
    best, rate = 0.0, FIRST_RATE
    while True:
        goodput = offer(experiment, rate).goodput
        if goodput < 1.1 * best and goodput < rate / 2:
            return max(best, goodput)
        best, rate = max(best, goodput), 2 * rate


def offer(experiment: Experiment, rate: float) -> OfferedLoad:
    """Have requests for the hot short URL arrive at `rate` per second for SECONDS."""
    traffic, url = experiment.traffic, urlsplit(experiment.place.urls[0])
    head = f"GET /{traffic.hot} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n"
    load = send(str(url.hostname), url.port or 80, head.encode(), rate)
    with traffic.lock:
        traffic.followed += load.sent
        traffic.ledger.sent += load.sent
        traffic.ledger.redirects[traffic.hot] += load.statuses["302"]
        traffic.ledger.unknown_redirects[traffic.hot] += load.failed  # a refused one is not counted
    return load


def send(host: str, port: int, request: bytes, rate: float) -> OfferedLoad:
    """Open connections at the rate for SECONDS, and wait until each is answered or times out."""
    load, began, used = OfferedLoad(), time.monotonic(), time.thread_time()
    look_again = began + CLIENT_TIMEOUT
    waiting: dict[int, tuple[float, socket.socket]] = {}  # with the time of connecting

    def finish(number: int, status: str, now: float) -> None:
        since, client = waiting.pop(number)
        load.statuses[status] += 1
        if status == "302":
            load.waits.append(now - since)
        client.close()

    with select.epoll() as poller:
        while waiting or load.seconds < SECONDS:
            now = time.monotonic()
            due = int(min(now - began, SECONDS) * rate) - load.sent
            for _ in range(min(due, BATCH)):
                load.sent += 1
                client = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.connect_ex((host, port))
                waiting[client.fileno()] = (now, client)
                connected = sent(client, request)
                poller.register(client, select.EPOLLIN if connected else select.EPOLLOUT)
            if load.seconds < SECONDS or due > 0:
                load.seconds, load.client = now - began, time.thread_time() - used
            for number, event in poller.poll(0 if due > BATCH else 0.001):
                client = waiting[number][1]
                if event == select.EPOLLOUT and sent(client, request):
                    poller.modify(client, select.EPOLLIN)
                else:
                    finish(number, read_status(client), time.monotonic())
            if now > look_again:
                look_again = now + CLIENT_TIMEOUT / 10
                for number, (since, _) in list(waiting.items()):
                    if now - since > CLIENT_TIMEOUT:
                        finish(number, "timed out", now)
    return load


def sent(client: socket.socket, request: bytes) -> bool:
    """Send the request; return False while the service's queue of connections is full."""
    with suppress(OSError):
        return client.send(request) == len(request)
    return False


def read_status(client: socket.socket) -> str:
    """Return the status of the answer, or the kind of the error."""
    try:
        line = client.recv(4096).split(b" ", 2)
    except OSError as error:
        return type(error).__name__
    return line[1].decode("ascii", "replace") if len(line) == 3 else "closed"
