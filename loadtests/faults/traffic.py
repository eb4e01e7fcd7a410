"""The load of an experiment: users with a steady rate of requests, and a ledger of all answers.

The rate is far below the capacity, so a request waits only because of the fault.
"""

import http.client
import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loadtests.harness.lab_api import Lab
from loadtests.harness.ledger import NO, PROCESSED, Ledger, leaves_open
from loadtests.harness.reconciliation import reconcile
from loadtests.harness.result import LoadResult

FOLLOWERS = 16  # half of them follow the hot short URL, each other one a cold one
INTERVAL = 0.1  # seconds between two requests of a user
CLIENT_TIMEOUT = 60  # seconds, longer than any bound
KEY_LENGTH = 3
# Other requests: pages, the API, and a key that does not exist.
PAGES = ("/", "/login", "/{hot}/stats", "/{hot}/qr.svg", "/api/links/{hot}", "/{space}-none")
# So many that a roll-up compacts the visits of a link, once they are old.
REFERRERS = [f"https://{number}.example/" for number in range(100)]
JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """An answer: its status or the kind of the error, its body, and its time."""

    kind: str
    body: bytes
    seconds: float

    @property
    def sent(self) -> bool:
        """Whether the request was sent."""
        return not self.kind.startswith("not sent")


class HttpClient:
    """Keeps a connection to the first of `urls` that accepts one."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._addresses = itertools.cycle(urlsplit(url).netloc for url in urls)
        self._connection = self._next()

    def _next(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(next(self._addresses), timeout=CLIENT_TIMEOUT)

    def ask(self, method: str, path: str, content: object = None, **headers: str) -> Answer:
        """Send one request, once, with further `headers`, and return the answer."""
        began, body = time.monotonic(), None if content is None else json.dumps(content)
        try:
            self._connection.request(method, path, body, {**JSON, **headers})
            response = self._connection.getresponse()
            refused = response.headers[PROCESSED] == NO
            kind = f"{'not processed: ' if refused else ''}{response.status}"
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            refused = isinstance(error, ConnectionRefusedError)
            if refused:
                self._connection = self._next()
            kind = f"{'not sent' if refused else 'no answer'}: {type(error).__name__}"
            answer = b""
        return Answer(kind, answer, time.monotonic() - began)

    def close(self) -> None:
        self._connection.close()


class Traffic:
    """Users of the services at `urls`, their ledger, and their longest wait.

    /healthz is requested at `probed`, or at the first of `urls`. Raises LabError when no service
    answers. Use running() to start the users.
    """

    def __init__(self, urls: Sequence[str], probed: str = "") -> None:
        self.urls, self.probed, self._lab = urls, probed or urls[0], Lab(urls[0])
        opened = self._lab.open_space(KEY_LENGTH)
        self.space, self.targets = opened["space"], opened["targets"]
        self.keys = [
            self._lab.create(self.space, "on_conflict", f"{self.targets}seed/{number}")
            for number in range(1 + FOLLOWERS // 2)
        ]
        self.hot = self.keys[0]
        self.ledger = Ledger()
        self.longest = self.longest_probe = 0.0  # seconds
        self.failed_probes = 0
        self.unbroken = 0  # redirects since a request failed
        self.followed = 0  # requests for a redirect, answered or not
        self._pages, self._referrers = itertools.cycle(PAGES), itertools.cycle(REFERRERS)
        self.lock, self.stopped = threading.Lock(), threading.Event()
        users: list[Any] = [self._probe, self._create, self._browse, *[self._follow] * FOLLOWERS]
        self.threads = [
            threading.Thread(target=self._repeat, args=(user, number), daemon=True)
            for number, user in enumerate(users)
        ]

    def cold_redirects(self) -> int:
        """Return the number of redirects of all short URLs but the hot one."""
        with self.lock:
            return self.ledger.redirects.total() - self.ledger.redirects[self.hot]

    def begin_measuring(self) -> None:
        """Reset the longest waits."""
        with self.lock:
            self.longest = self.longest_probe = 0.0
            self.failed_probes = 0

    def reconciled(self) -> tuple[int, LoadResult]:
        """Return the hits in the database, and the ledger reconciled with it."""
        links = list(self._lab.links(self.space))
        self._lab.close_space(self.space)
        result = reconcile(
            self.ledger,
            links,
            script="faults",
            strategy="service",
            operation="service",
            verdict="right",
            seeds=self.keys,
            faults=True,
        )
        return sum(link.hits for link in links), result

    def _repeat(self, task: Any, number: int) -> None:
        shift = number % len(self.urls)
        urls = [*self.urls[shift:], *self.urls[:shift]]
        client = HttpClient([self.probed] if task == self._probe else urls)
        while not self.stopped.wait(INTERVAL):
            task(client, number)
        client.close()

    def _probe(self, client: HttpClient, number: int) -> None:
        answer = client.ask("GET", "/healthz")
        client.close()  # each probe has a new connection
        with self.lock:
            self.longest_probe = max(self.longest_probe, answer.seconds)
            self.failed_probes += answer.kind != "200"

    def _follow(self, client: HttpClient, number: int) -> None:
        key = self.keys[max(0, number - 2 - FOLLOWERS // 2)]
        answer = client.ask("GET", f"/{key}", Referer=next(self._referrers))
        with self.lock:
            self.followed += answer.sent
            if self._is_right(answer, "302"):
                self.ledger.redirected(key, hits=None, request="")
                self.unbroken += 1
            elif leaves_open(answer.kind):
                self.ledger.unknown_redirects[key] += 1

    def _create(self, client: HttpClient, number: int) -> None:
        target_url = f"{self.targets}{time.monotonic_ns()}"
        answer = client.ask("POST", "/api/links", {"target_url": target_url})
        with self.lock:
            if self._is_right(answer, "201"):
                self.ledger.created(json.loads(answer.body)["key"], target_url)
            elif leaves_open(answer.kind):
                self.ledger.unknown_creates.append(target_url)

    def _browse(self, client: HttpClient, number: int) -> None:
        path = next(self._pages).format(hot=self.hot, space=self.space)
        answer = client.ask("GET", path)
        with self.lock:
            if self._is_right(answer, "404" if path.endswith("-none") else "200"):
                self.ledger.other += 1

    def _is_right(self, answer: Answer, expected: str) -> bool:
        """Record how long the answer took, and an error unless it is the expected one."""
        self.ledger.sent += answer.sent
        self.longest = max(self.longest, answer.seconds)
        if answer.kind != expected:
            self.ledger.errors[answer.kind] += 1
            self.unbroken = 0
        return answer.kind == expected


@contextmanager
def running(urls: Sequence[str], probed: str = "") -> Iterator[Traffic]:
    """Start the users; after the block stop them, and wait for the answers to all requests."""
    traffic = Traffic(urls, probed)
    for thread in traffic.threads:
        thread.start()
    try:
        yield traffic
    finally:
        traffic.stopped.set()
        for thread in traffic.threads:
            thread.join()
