"""A user who records every answer in the ledger, and every request without an answer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import geventhttpclient.client
from locust import FastHttpUser
from locust.exception import StopUser

from loadtests.harness.ledger import UNAVAILABLE
from loadtests.harness.load_run import REQUEST_TIMEOUT, LoadRun

# Here even a GET changes something: it counts a hit. The HTTP client would repeat it by itself when
# the connection is lost, and a hit counted twice would look like the strategy's fault.
geventhttpclient.client.IDEMPOTENT_METHODS = frozenset()

# The ledger of a process is in memory, some 200 bytes for each create. The limit keeps a run
# that nobody stops from filling the machine's memory.
MAX_REQUESTS = 500_000

numbers = itertools.count(1)


class LedgerUser(FastHttpUser):
    """Base of all users. There is no wait between two requests."""

    abstract = True
    network_timeout = REQUEST_TIMEOUT
    connection_timeout = 5

    load: LoadRun

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        # The numbers of different workers are the same.
        self.number = f"{environment.runner.worker_index}-{next(numbers)}"
        self.sent = 0

    @property
    def given(self) -> dict[str, Any]:
        """What was prepared for this run; raises StopUser when it is over."""
        if self.load.stopping:
            raise StopUser
        return self.load.given

    @property
    def strategy(self) -> str:
        """The strategy's name."""
        return self.load.strategy

    def ask(
        self,
        method: str,
        path: str,
        *,
        name: str,
        expected: int,
        unknown: Callable[[], None],
        json: Any = None,
        measured: bool = True,
    ) -> Any:
        """Send one request, and return the response if its status is the one `expected`.

        Any other answer is recorded as an error and returned as None. Without an answer, or with
        one that leaves the outcome open, `unknown` is called to record that, too. `measured` says
        whether the request counts for the throughput and the times.
        """
        load = self.load
        if load.stopping or load.total >= MAX_REQUESTS:
            raise StopUser
        load.in_flight += 1
        load.ledger.sent += 1
        load.total += 1
        self.sent += 1
        status = None
        began = time.perf_counter()
        try:
            with self.client.request(
                method, path, name=name, json=json, allow_redirects=False, catch_response=True
            ) as response:
                milliseconds = (time.perf_counter() - began) * 1000
                status = response.status_code
                if status and measured:
                    load.ledger.took(milliseconds, time.time())
                if status == expected:
                    response.success()
                    return response
                kind = self.kind(response)
                response.failure(kind)
                load.ledger.errors[kind] += 1
                if kind in UNAVAILABLE or kind.startswith("no answer"):
                    unknown()
                self.failed(response, kind)
                return None
        finally:
            if status is None:  # this user was killed while it waited
                load.ledger.errors["no answer: stopped"] += 1
                unknown()
            load.in_flight -= 1

    def failed(self, response: Any, kind: str) -> None:
        """Record more about a request that failed; for subclasses."""

    def kind(self, response: Any) -> str:
        """Return the kind of an error: the status and the exception, or why there was none."""
        if not response.status_code:
            error = response.error
            sent = "not sent" if isinstance(error, ConnectionRefusedError) else "no answer"
            return f"{sent}: {type(error).__name__}"
        return f"{response.status_code} {self.told(response, 'exception')}".strip()

    def told(self, response: Any, name: str) -> str:
        """Return a field of the lab's JSON error; empty when the answer is not the lab's."""
        try:
            return str(response.json()[name])
        except (ValueError, KeyError, TypeError):
            return ""

    def label(self, path: str) -> str:
        """Return how a proof names a request."""
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        return (
            f"GET {path}, request {self.sent} of user {self.number}, "
            f"answered {clock}.{int(now % 1 * 1000):03}"
        )

    def follow(self, path: str, key: str, *, name: str) -> Any:
        """Follow `key` at `path`; return the response when it is a redirect, and record it."""
        response = self.ask(
            "GET",
            path,
            name=name,
            expected=302,
            unknown=lambda: self.load.ledger.unknown_redirects.update([key]),
        )
        if response is not None:
            hits = response.headers.get("X-Hits")
            self.load.ledger.redirected(key, hits=hits, request=self.label(path))
        return response
