"""Faults of clients: they send or read little, guess passwords, or are too many."""

import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

import requests

from loadtests.faults.experiment import MARGIN, QUICK, Experiment, Figure, Place, plain
from loadtests.harness.own_proxies import own_haproxy

# Seconds, as in docs/monitoring.md.
RECEIVE_TIMEOUT, PIECE_TIMEOUT, SEND_TIMEOUT = 5.0, 10.0, 10.0

POLL_INTERVAL = 0.1  # seconds
OPEN = RECEIVE_TIMEOUT + 1  # seconds for which connections stay open
THREADS = 10  # that the load itself may need meanwhile
HALF_HEADER = b"GET / HTTP/1.1\r\nHost: loc"
HALF_BODY = (
    b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"target_url": "https://example.com/'
)
# More than the buffer of HAProxy holds.
LONG_HALF_BODY = HALF_BODY.replace(b"100", b"60000") + b"x" * 40_000
SILENCE = 0.5  # seconds for which a refused connection waits for the rest of its body
LAST_REQUEST = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"  # its answer ends the connection
# 177 KB, more than the buffers between the service and a client hold.
BIG_FILE = b"GET /static/ninja/swagger-ui.css HTTP/1.1\r\nHost: localhost\r\n\r\n"

GUESSERS, GUESSING = 16, 5  # clients, seconds
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@contextmanager
def haproxy_before_service(options: str) -> Iterator[Place]:
    """Yield a service behind a HAProxy with the limits of deploy/haproxy.cfg.

    The probe of /healthz goes past HAProxy to the service, as HAProxy's own checks do.
    """
    with plain(options) as place, own_haproxy(place.urls[0]) as url:
        yield replace(place, urls=[url], probed=place.urls[0])


class SlowClient(socket.socket):
    """A client that does not block. It sends `data`, and `answer` is what it has read."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data, self.answer = data, b""

    def asks(self) -> bool:
        """Send the data if the buffer has room; return whether the connection is open."""
        with suppress(BlockingIOError):
            try:
                self.send(self.data)
            except ConnectionError:
                return False
        return True

    def reads(self) -> bool:
        """Read the data that has arrived; return whether the connection is open."""
        try:
            while data := self.recv(4096):
                self.answer += data
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False


@contextmanager
def connected(experiment: Experiment, number: int, data: bytes) -> Iterator[list[SlowClient]]:
    """Yield `number` clients, each of which has sent `data`; close them after the block."""
    address = urlsplit(experiment.place.urls[0])
    with ExitStack() as opened:
        clients = [opened.enter_context(SlowClient(data)) for _ in range(number)]
        for client in clients:
            client.connect((address.hostname, address.port))
            client.setblocking(False)
            client.asks()
        yield clients


def left_open(experiment: Experiment) -> Iterator[Figure]:
    """Open 500 connections; half of them send nothing, and the others half a header."""

    def threads() -> int:
        return sum(worker.num_threads() for worker in experiment.master.children())

    before = threads()
    with connected(experiment, 250, b""), connected(experiment, 250, HALF_HEADER):
        experiment.go_on(OPEN)
        yield Figure("more threads", threads() - before, THREADS)


def half_bodies(experiment: Experiment) -> None:
    """Send 300 short and 300 long bodies in part."""
    with connected(experiment, 300, HALF_BODY), connected(experiment, 300, LONG_HALF_BODY):
        experiment.go_on(OPEN)


def closed(
    experiment: Experiment,
    data: bytes,
    is_open: Callable[[SlowClient], bool] = SlowClient.reads,
    *,
    within: float = RECEIVE_TIMEOUT,
    status: bytes = b"",
) -> Iterator[Figure]:
    """Wait until the service has closed 200 connections, at most `within` seconds.

    `is_open` is called for each ten times a second. With `status`, each has to get that status.
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
    """Request a file on 200 connections, ten times a second, without reading any of it."""
    within = QUICK + PIECE_TIMEOUT + SEND_TIMEOUT
    return closed(experiment, BIG_FILE, SlowClient.asks, within=within)


def wrong_passwords(experiment: Experiment) -> Iterator[Figure]:
    """Have 16 clients post wrong passwords without pause, each for another user name.

    The check of a password takes a processor for half a second.
    """
    with ThreadPoolExecutor(GUESSERS) as pool:
        told = pool.map(partial(guess, experiment.place.urls[0]), range(GUESSERS))
        answers = sum(told, Counter[int]())
    yield Figure("guesses answered", answers.total(), GUESSERS, least=True)
    yield Figure("500s", answers[500], 0)


def guess(url: str, number: int) -> Counter[int]:
    """Post wrong passwords for GUESSING seconds; return the number of answers by their status."""
    answers: Counter[int] = Counter()
    session, deadline, token = requests.Session(), time.monotonic() + GUESSING, None
    session.trust_env = False  # no proxy
    while time.monotonic() < deadline:
        try:
            if token is None:
                page = session.get(f"{url}/login", timeout=GUESSING)
                page.raise_for_status()
                token = TOKEN.findall(page.text)[0]
            form = {"username": f"user-{number}", "password": "wrong", "csrfmiddlewaretoken": token}
            answers[session.post(f"{url}/login", form, timeout=GUESSING).status_code] += 1
        except requests.RequestException as error:
            answers[0 if error.response is None else error.response.status_code] += 1
    return answers
