"""What the clients that have left leave in a worker's memory."""

from collections.abc import Iterator

import pytest

from loadtests.servers import OwnPostgres
from project.tests.serving.conftest import Connect, OwnService, start_service

HEADERS = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 8_000) for number in range(95))  # 760 kB
MAX_MEMORY = 250_000_000  # bytes of a worker


@pytest.fixture(scope="module")
def service(postgres: OwnPostgres) -> Iterator[OwnService]:
    with start_service(postgres) as service:
        yield service


@pytest.mark.parametrize(
    ("path", "end", "visits"),
    [
        pytest.param(b"/unknown", b"", 1_000, id="half-sent"),
        pytest.param(b"/unknown", b"\r\n", 200, id="unknown key"),
        pytest.param(b"/un/known", b"\r\n", 200, id="page"),
    ],
)
def test_a_visitor_with_long_headers_fills_no_memory(
    service: OwnService, connect: Connect, path: bytes, end: bytes, visits: int
) -> None:
    """One connection at a time; a worker of 105 MB kept 400 to 1,000 MB of the headers."""
    (worker,) = service.wait_for_workers()
    request = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + HEADERS + end
    for _ in range(visits):
        client = connect(service, request)
        if end:
            assert client.read_answer().status == 404
        client.close()
    assert service.ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200
    assert worker.memory_info().rss < MAX_MEMORY
