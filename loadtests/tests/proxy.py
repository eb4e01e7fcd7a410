"""An HTTP proxy that repeats, drops, replaces or replays a load test's requests and answers."""

import http.client
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

OPERATIONS = ("/lab/resolve/", "/lab/edit/", "/lab/create/", "/lab/spend/", "/lab/record/")
EVERY = 5  # every fifth request gets the misdeed


class ProxiedAnswer(NamedTuple):
    """The answer of the service."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


Ask = Callable[[], ProxiedAnswer]
Misdeed = Callable[[Ask, list[ProxiedAnswer]], ProxiedAnswer | None]


def repeat(ask: Ask, before: list[ProxiedAnswer]) -> ProxiedAnswer | None:
    """Send the request twice."""
    ask()
    return ask()


def drop(ask: Ask, before: list[ProxiedAnswer]) -> ProxiedAnswer | None:
    """Hang up instead of answering."""
    ask()
    return None


def replace(ask: Ask, before: list[ProxiedAnswer]) -> ProxiedAnswer | None:
    """Replace any answer of the service by a 500."""
    ask()
    return ProxiedAnswer(500, [], b"oops")


def refuse(ask: Ask, before: list[ProxiedAnswer]) -> ProxiedAnswer | None:
    """Answer 408 without a request to the service. The client cannot know that."""
    return ProxiedAnswer(408, [], b"")


def replay(ask: Ask, before: list[ProxiedAnswer]) -> ProxiedAnswer | None:
    """Send the answer to another request, as a cache may."""
    return before[-1] if before else ask()


@contextmanager
def proxied(url: str, misdeed: Misdeed, *, of: str = "/lab/", every: int = EVERY) -> Iterator[str]:
    """Yield the address of a proxy to `url`; requests with a path in `of` get the misdeed."""
    service = urlsplit(url).netloc
    numbers, answered = itertools.count(1), list[ProxiedAnswer]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def ask() -> ProxiedAnswer:
                connection = http.client.HTTPConnection(service, timeout=30)
                try:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    response = connection.getresponse()
                    return ProxiedAnswer(response.status, response.getheaders(), response.read())
                finally:
                    connection.close()

            chosen = self.path.startswith(OPERATIONS) and self.path.startswith(of)
            if chosen and next(numbers) % every == 0:
                answer = misdeed(ask, answered)
            else:
                answer = ask()
                if chosen:
                    answered[:] = [answer]
            self.close_connection = answer is None
            if answer is not None:
                self.give(answer)

        do_GET = do_POST = do_DELETE = forward  # noqa: N815

        def give(self, answer: ProxiedAnswer) -> None:
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Print nothing about clients that left."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
