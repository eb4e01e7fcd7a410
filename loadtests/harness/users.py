"""A user who notes every answer in the ledger, and every request that got none."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import geventhttpclient.client
from locust import FastHttpUser
from locust.exception import StopUser

from loadtests.harness.ledger import AWAY
from loadtests.harness.load_run import REQUEST_TIMEOUT, LoadRun

# Here even a GET changes something: it counts a hit. The HTTP client would send it again by itself
# when the connection breaks, and a hit counted twice would look like the strategy's doing.
geventhttpclient.client.IDEMPOTENT_METHODS = frozenset()

# The ledger of a process is in memory, some 200 bytes for each create. What is over the limit is
# not sent, so that a run which nobody stops cannot fill the machine.
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
        # Workers number their users alike.
        self.number = f"{environment.runner.worker_index}-{next(numbers)}"
        self.sent = 0

    @property
    def given(self) -> dict[str, Any]:
        """What was prepared for this run, as long as it goes on."""
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

        Any other answer is noted as an error and returned as None. When no answer comes, or one
        that leaves open what has happened, `unknown` is called to note that, too. `measured` says
        whether it belongs to the throughput and the times.
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
                if kind in AWAY or kind.startswith("no answer"):
                    unknown()
                self.failed(response, kind)
                return None
        finally:
            if status is None:  # this user was killed while it waited
                load.ledger.errors["no answer: stopped"] += 1
                unknown()
            load.in_flight -= 1

    def failed(self, response: Any, kind: str) -> None:
        """Note more about a request that failed, if there is more to note."""

    def kind(self, response: Any) -> str:
        """Return the kind of an error: the status and the exception, or why there was none."""
        if not response.status_code:
            error = response.error
            sent = "not sent" if isinstance(error, ConnectionRefusedError) else "no answer"
            return f"{sent}: {type(error).__name__}"
        return f"{response.status_code} {self.told(response, 'exception')}".strip()

    def told(self, response: Any, name: str) -> str:
        """Return what the lab says of an error; nothing when it is not the lab that answers."""
        try:
            return str(response.json()[name])
        except (ValueError, KeyError, TypeError):
            return ""

    def label(self, path: str) -> str:
        """Return how a request is called in a proof."""
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        return (
            f"GET {path}, request {self.sent} of user {self.number}, "
            f"answered {clock}.{int(now % 1 * 1000):03}"
        )

    def follow(self, path: str, key: str, *, name: str) -> Any:
        """Follow `key` at `path`; return the response when it is a redirect, which is noted."""
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
