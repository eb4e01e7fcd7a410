"""wrk asks for the keys it is told to, and what it says of the answers is understood."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import wrk

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("wrk") is None, reason=wrk.MISSING),
]


@contextmanager
def answering(status: int) -> Iterator[tuple[str, set[str]]]:
    """Answer every request with `status`; yield the address, and the paths that are asked for."""
    paths: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            paths.add(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", paths
        finally:
            server.shutdown()
            thread.join()


def test_random_keys() -> None:
    with answering(302) as (url, paths):
        sample = wrk.run(f"{url}/other", keys=3, connections=2, seconds=1)
    assert paths == {"/k1", "/k2", "/k3"}
    assert sample.requests > 0
    assert sample.errors == 0
    assert 0 < sample.p50 <= sample.p99
    assert sample.per_second == sample.requests / sample.seconds


def test_a_path_of_its_own() -> None:
    with answering(302) as (url, paths):
        wrk.run(f"{url}/other", connections=1, seconds=1)
    assert paths == {"/other"}


def test_answers_that_are_errors() -> None:
    with answering(503) as (url, _):
        sample = wrk.run(url, keys=1, connections=1, seconds=1)
    assert sample.errors == sample.requests > 0
