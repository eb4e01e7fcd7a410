"""wrk asks for the keys it is told to, and what it says of the answers is understood."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks import wrk
from benchmarks.wrk import Sample


def real(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that runs wrk."""
    marks = [
        pytest.mark.exhaustive,
        pytest.mark.skipif(not shutil.which("wrk"), reason=wrk.MISSING),
    ]
    for mark in marks:
        test = mark(test)
    return test


@contextmanager
def answering(status: int) -> Iterator[tuple[str, list[str]]]:
    """Answer every request with `status`; yield the address, and the paths that are asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

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


@pytest.mark.parametrize(
    ("keys", "paths"),
    [("one", {"/k1"}), ("random", {"/k1", "/k2", "/k3"}), ("Zipf", {"/k1", "/k2", "/k3"})],
)
@real
def test_the_keys(keys: str, paths: set[str]) -> None:
    """And what wrk has seen is all that was answered, the last answers included."""
    with answering(302) as (url, asked):
        sample = wrk.run(url, keys=keys, links=3, connections=2, seconds=0.3)
    assert set(asked) == paths
    assert sample.requests == len(asked)
    assert sample.failed == 0
    assert 0 < sample.p50 <= sample.p99 <= sample.p999
    assert 0 <= sample.requests - sample.per_second * 0.3 <= 2 + 1  # on their way when it ended


@real
def test_answers_that_are_errors() -> None:
    with answering(503) as (url, asked):
        sample = wrk.run(url, keys="new", links=0, connections=1, seconds=0.3)
    assert set(asked) == {"/api/links"}
    assert sample.failed == sample.requests == len(asked) > 0
    assert sample.per_second == 0


LINE = (
    '{"requests": %s, "per_second": 4.5, "p50": 1, "p99": 2, "p999": 3,'
    ' "errors": {"too late": 2, "not answered": 1}}'
)


def test_what_wrk_says() -> None:
    sample = wrk.parse(f"Running 1s test\n{LINE % 9}\n")
    assert (sample.requests, sample.per_second, sample.failed) == (9, 4.5, 3)


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (LINE % 0, "wrk got no answer in time (2 too late, 1 not answered)"),
        ("wrk.lua: oops", "wrk does not say what it measured: wrk.lua: oops"),
        ("", "wrk does not say what it measured: it printed nothing"),
    ],
)
def test_what_is_no_measurement(printed: str, message: str) -> None:
    with pytest.raises(wrk.NoAnswer) as raised:
        wrk.parse(printed)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("errors", "counted", "miscounted"),
    [
        ({}, 100, 0),
        ({}, 99, 1),  # one lost, however many connections there were
        ({}, 101, 1),  # one twice
        ({"an error as the answer": 3}, 97, 0),
        ({"an error as the answer": 3}, 96, 1),
        ({"an error as the answer": 3}, 100, 0),  # counted before they failed
        ({"not answered": 3, "not read": 1}, 104, 0),
        ({"not answered": 3, "not read": 1}, 105, 1),
        ({"not answered": 3, "not read": 1}, 99, 1),
        ({"too late": 3}, 100, 0),  # for us, and answered all the same
        ({"too late": 3}, 99, 1),
        ({"too late": 3}, 101, 1),
    ],
)
def test_what_is_not_counted(errors: dict[str, int], counted: int, miscounted: int) -> None:
    sample = Sample(requests=100, per_second=1, p50=1, p99=1, p999=1, errors=errors)
    assert sample.miscounted(counted) == miscounted
