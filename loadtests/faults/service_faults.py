"""Faults of the service: workers that are killed, and clients that keep it busy or do not read."""

import json
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from urllib.parse import urlsplit

import psutil
import requests

from loadtests.faults.experiment import QUICK, Experiment, Figure, found
from loadtests.faults.traffic import HttpClient

# Seconds, as in docs/deploying.md, and a margin for a machine that is busy with the load.
RECEIVE_TIMEOUT, PIECE_TIMEOUT, SEND_TIMEOUT, MARGIN = 5.0, 10.0, 10.0, 0.5

POLL_INTERVAL = 0.1  # seconds
OPEN = RECEIVE_TIMEOUT + 1  # seconds for which connections stay open
THREADS = 10  # that the load itself may need meanwhile
HALF_HEADER = b"GET / HTTP/1.1\r\nHost: loc"
HALF_BODY = (
    b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"target_url": "https://example.com/'
)
LAST_REQUEST = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"  # its answer ends the connection
# 177 KB, more than the buffers between the service and a client hold.
BIG_FILE = b"GET /static/ninja/swagger-ui.css HTTP/1.1\r\nHost: localhost\r\n\r\n"

GUESSERS, GUESSING = 16, 5  # clients, seconds
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')

# How to hold a request before its COMMIT, when its work is done: its transaction cannot store the
# answer. And after the COMMIT: PostgreSQL waits for a standby before it acknowledges the COMMIT.
HOLDS = {
    "before": (
        ["BEGIN", "LOCK TABLE shorturl_keptanswer IN SHARE MODE"],
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'keptanswer'",
        ["ROLLBACK"],
    ),
    "after": (
        ["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"],
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'",
        ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"],
    ),
}
LINKS = "SELECT key FROM shorturl_shorturl WHERE target_url = %s"


def kill_worker(experiment: Experiment) -> Iterator[Figure]:
    """Kill the worker with the most connections, and wait until gunicorn has replaced it."""

    def connections(worker: psutil.Process) -> int:
        try:
            return len(worker.net_connections("inet"))
        except psutil.NoSuchProcess:
            return -1

    before = experiment.master.children()
    victim = max(before, key=connections)
    victim.kill()

    def replaced() -> bool:
        workers = experiment.master.children()
        return victim not in workers and len(workers) == len(before)

    took = experiment.wait(replaced, "gunicorn does not replace the worker that was killed")
    yield Figure("replaced after", took, 5, " s")


def kill_service(experiment: Experiment) -> None:
    """Kill the second service; its clients go to the first one when their connection is refused."""
    for process in [experiment.master, *experiment.master.children()]:
        process.kill()


def kill_answer(experiment: Experiment) -> Iterator[Figure]:
    """Kill all workers before and after a COMMIT, and repeat each request until it is answered."""
    for when, (hold, held, release) in HOLDS.items():
        target_url, answers = f"https://kill-answer.invalid/{when}", list[str]()
        send = partial(create, experiment.place.urls[0], target_url, answers)
        # ALTER SYSTEM cannot be part of a transaction.
        with experiment.postgres.session(autocommit=True) as cursor:
            for statement in hold:
                cursor.execute(statement)
            with ThreadPoolExecutor() as pool:
                pool.submit(send)
                try:
                    experiment.wait(partial(found, cursor, held), "the request does not get so far")
                    for worker in experiment.master.children():
                        worker.kill()
                finally:
                    for statement in release:
                        cursor.execute(statement)
            yield Figure(f"answered when killed {when} the COMMIT", len(answers), 0)
            experiment.wait(send, "the request is not answered")
            cursor.execute(LINKS, [target_url])
            links = [key for (key,) in cursor.fetchall()]
        yield Figure("links", len(links), 1)
        yield Figure("links as answered", int(links == answers), 1, least=True)


def create(url: str, target_url: str, answers: list[str]) -> bool:
    """Create a link with its target as Idempotency-Key, and append its key to `answers`.

    Return whether it was answered.
    """
    with closing(HttpClient([url])) as client:
        content, headers = {"target_url": target_url}, {"Idempotency-Key": target_url}
        answer = client.ask("POST", "/api/links", content, **headers)
    if answer.kind == "201":
        answers.append(json.loads(answer.body)["key"])
    return answer.kind == "201"


# --- Clients -------------------------------------------------------------------------------------


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


def left_open(experiment: Experiment, data: bytes) -> Iterator[Figure]:
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
