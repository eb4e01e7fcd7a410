"""Users that record every answer, and every request without one, in the ledger."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable
from typing import Any

from locust import FastHttpUser
from locust.contrib.fasthttp import FAILURE_EXCEPTIONS
from locust.exception import StopUser

from loadtests import patches
from loadtests.harness.ledger import NO, PROCESSED, leaves_open
from loadtests.harness.load_run import REQUEST_TIMEOUT, LoadRun
from loadtests.harness.measured_operations import SERVICE

patches.repeat_nothing()

# The lab sends it back. A cache's answer has the id of another request and acknowledges nothing.
REQUEST_ID = "X-Request-Id"

# The ledger is in memory, some 200 bytes for each create. The limit bounds the memory of a run that
# is never stopped.
MAX_REQUESTS = 500_000

numbers = itertools.count(1)


class LedgerUser(FastHttpUser):
    """The base of all users. They do not wait between two requests."""

    abstract = True
    network_timeout = REQUEST_TIMEOUT
    connection_timeout = 5

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.load: LoadRun = environment.load
        # Each worker counts its users from 1.
        self.number = f"{environment.runner.worker_index}-{next(numbers)}"
        self.sent = 0

    @property
    def given(self) -> dict[str, Any]:
        """The key space and links of this run; raises StopUser when the run is over."""
        if self.load.stopping:
            raise StopUser
        return self.load.given

    @property
    def strategy(self) -> str:
        return self.load.strategy

    def path(self, operation: str) -> str:
        """Return the beginning of the path of a key: the lab's, or none for the service itself."""
        return "" if self.strategy == SERVICE else f"/lab/{operation}/{self.strategy}"

    def ask(
        self,
        method: str,
        path: str,
        *,
        name: str,
        expected: int,
        or_else: int | None = None,
        unknown: Callable[[], None] = lambda: None,
        complete: Callable[[Any], bool] = lambda response: True,
        json: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send one request; return the response if it is right, and None if not.

        A response is right if it has the request's id and either the status `or_else`, or the
        status `expected` and is `complete`. Any other answer is recorded as an error. Unless the
        lab names the exception of the strategy in it, the work may be done, and `unknown` is
        called.
        """
        load = self.load
        if load.stopping or load.total >= MAX_REQUESTS:
            raise StopUser
        load.in_flight += 1
        load.ledger.sent += 1
        load.total += 1
        self.sent += 1
        status, request_id = None, uuid.uuid4().hex
        try:
            with self.client.request(
                method,
                path,
                name=name,
                json=json,
                headers={**(headers or {}), REQUEST_ID: request_id},
                allow_redirects=False,
                catch_response=True,
            ) as response:
                status = response.status_code
                # Endpoints outside the lab do not send the id back.
                own = not status or response.headers.get(REQUEST_ID, request_id) == request_id
                if own and (status == or_else or (status == expected and complete(response))):
                    response.success()
                    return response
                kind = self.kind(response) if own else str(status)
                response.failure(kind)
                load.ledger.errors[kind] += 1
                if leaves_open(kind):
                    unknown()
                self.failed(response, kind)
                return None
        finally:
            if status is None:  # this user was killed while it waited
                load.ledger.errors["no answer: stopped"] += 1
                unknown()
            load.in_flight -= 1

    def failed(self, response: Any, kind: str) -> None:
        """Record more about a failed request; for subclasses."""

    def kind(self, response: Any) -> str:
        """Return the kind of an error: the status and the lab's exception, or the client's.

        A request that was refused before its statement is "not processed".
        """
        if not response.status_code:
            error = response.error
            sent = "not sent" if isinstance(error, ConnectionRefusedError) else "no answer"
            return f"{sent}: {type(error).__name__}"
        if response.headers.get(PROCESSED) == NO:
            return f"not processed: {response.status_code}"
        return f"{response.status_code} {self.told(response, 'exception')}".strip()

    def told(self, response: Any, name: str) -> str:
        """Return a field of a JSON answer; empty if it is missing or the answer is unreadable."""
        try:
            return str(response.json()[name])
        except (ValueError, KeyError, TypeError, *FAILURE_EXCEPTIONS):
            return ""

    def label(self, path: str) -> str:
        """Return the description of a request for a proof."""
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        return (
            f"GET {path}, request {self.sent} of user {self.number}, "
            f"answered {clock}.{int(now % 1 * 1000):03}"
        )

    def follow(self, path: str, key: str, *, name: str, **options: Any) -> Any:
        """Follow `key` at `path`; return the response, and record it when it is a redirect."""
        response = self.ask(
            "GET",
            path,
            name=name,
            expected=302,
            unknown=lambda: self.load.ledger.unknown_redirects.update([key]),
            # A redirect to another site, such as a network's log-in page, acknowledges nothing.
            complete=lambda response: response.headers.get("Location", "").startswith(
                self.load.given["targets"]
            ),
            **options,
        )
        if response is not None and response.status_code == 302:
            hits = response.headers.get("X-Hits")
            self.load.ledger.redirected(key, hits=hits, request=self.label(path))
        return response

    def create(self, path: str, target_url: str, *, expected: int = 200, **content: Any) -> None:
        """Create a link to `target_url` at `path`, with further `content`, and record it."""
        response = self.ask(
            "POST",
            path,
            name=path,
            expected=expected,
            unknown=lambda: self.load.ledger.unknown_creates.append(target_url),
            complete=lambda response: self.told(response, "target_url") != "",
            json={**content, "target_url": target_url},
        )
        if response is None:
            return
        if key := self.told(response, "key"):
            self.load.ledger.created(key, target_url)
        else:  # another request for the same target is in progress
            self.load.ledger.other += 1

    def look(self, method: str, path: str, **options: Any) -> None:
        """Send a request that changes nothing that is counted."""
        if self.ask(method, path, **options) is not None:
            self.load.ledger.other += 1
