"""A proxy between Locust and the service makes outcomes unknown, and loses nothing.

It does something to every fifth request of a script: it repeats, drops, delays or replaces it or
its answer.
"""

import http.client
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from loadtests.servers import RunningService
from loadtests.tests.conftest import run_script

EVERY = 5
DELAY = 12  # seconds, longer than a run and the wait for its last answers


class Message(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Proxy(BaseHTTPRequestHandler):
    """Forwards each request to the server's `service`, and does its `misdeed` to some."""

    protocol_version = "HTTP/1.1"
    server: Any

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_preparation = "/creating/" in self.path and b'"key"' in body  # of a link
        # /KEY or /lab/load/SPACE/OPERATION/STRATEGY
        is_of_strategy = self.path.count("/") in (1, 5)
        is_of_script = is_of_strategy and not is_preparation
        is_chosen = is_of_script and next(self.server.numbers) % EVERY == 0
        message = self.misbehave(body) if is_chosen else self.ask(body)
        if is_of_script:
            self.server.last_answer = message
        self.close_connection = message is None
        if message is not None:
            self.send_response_only(message.status)
            for name, value in message.headers:
                if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(message.body)))
            self.end_headers()
            self.wfile.write(message.body)

    do_GET = do_POST = do_DELETE = forward  # noqa: N815

    def ask(self, body: bytes) -> Message:
        connection = http.client.HTTPConnection(self.server.service, timeout=30)
        connection.request(self.command, self.path, body, dict(self.headers))
        response = connection.getresponse()
        message = Message(response.status, response.getheaders(), response.read())
        connection.close()
        return message

    def misbehave(self, body: bytes) -> Message | None:
        """Return the message that the client gets; None hangs up."""
        misdeed = self.server.misdeed
        answer_to_another: Message | None = self.server.last_answer
        if misdeed == "refuse":  # without asking the service
            return Message(502, [], b"bad gateway")
        message = self.ask(body)
        if misdeed == "repeat the request":
            return self.ask(body)
        if misdeed == "repeat an answer" and answer_to_another:
            return answer_to_another
        if misdeed == "replace":
            return Message(500, [], b"oops")
        if misdeed == "delay":
            time.sleep(DELAY)
        return None if misdeed == "drop" else message

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, service: str, misdeed: str) -> None:
        self.service = service
        self.misdeed = misdeed
        self.numbers = itertools.count(1)  # of the requests of the script
        self.last_answer: Message | None = None
        super().__init__(("127.0.0.1", 0), Proxy)

    def handle_error(self, *args: Any) -> None:
        """Print nothing about clients that have left."""


@contextmanager
def start_proxy(url: str, misdeed: str) -> Iterator[str]:
    """Yield the address of a proxy to `url`, which does `misdeed` to every fifth request."""
    with Server(urlsplit(url).netloc, misdeed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


MISDEEDS = {  # whether the client does not know the outcome of some requests
    "drop": True,
    "delay": True,
    "replace": True,
    "refuse": True,
    "repeat an answer": True,
    "repeat the request": False,
}


@pytest.mark.parametrize("misdeed", MISDEEDS)
@pytest.mark.parametrize(
    ("script", "strategy"),
    [
        ("lost_update", "service"),
        pytest.param("lost_update", "update_returning", marks=pytest.mark.exhaustive),
        pytest.param("toctou", "on_conflict", marks=pytest.mark.exhaustive),
    ],
)
def test_what_a_proxy_does_to_requests_is_no_loss(
    service: RunningService, tmp_path: Path, misdeed: str, script: str, strategy: str
) -> None:
    with start_proxy(service.url, misdeed) as url:
        result = run_script(script, url, tmp_path / "ledger", "--strategy", strategy)
    assert (result["lost"], result["failed"]) == (0, 0)
    assert result["of"] > EVERY  # so that the proxy did its misdeed at least once
    assert (result["unknown"] > 0) is MISDEEDS[misdeed]
    # With 2 the run says nothing: more is counted than was sent.
    assert result["exit_code"] == (2 if misdeed == "repeat the request" else 0)


def test_a_loss_is_found_behind_a_proxy(service: RunningService, tmp_path: Path) -> None:
    with start_proxy(service.url, "drop") as url:
        result = run_script("lost_update", url, tmp_path / "ledger", "--strategy", "naive")
    assert result["of"] > result["lost"] > 0
