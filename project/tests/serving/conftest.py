"""A service of the tests' own, and clients that only a test reads from and writes to."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import parse_headers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from loadtests.servers import (
    NO_REFUSALS,
    OwnPostgres,
    RunningService,
    own_postgres,
    serving,
    wait_until,
)
from project.tests.conftest import TIMEOUT, Answer

THREADS = 2
TOKEN = "a token of the metrics"
QUEUE_TIMEOUT = 3  # seconds: long enough on a busy machine
# A statement may wait for the table as long as a test needs.
PATIENT = {"PGOPTIONS": "-c lock_timeout=60s", "DATABASE_STATEMENT_TIMEOUT": "60"}
NEW = b'{"target_url": "https://a.example/"}'


class Client:
    """A connection that only the test reads from and writes to."""

    def __init__(self, url: str, data: bytes = b"", *, narrow: bool = False) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT)
        if narrow:  # so that little data is under way to it at a time
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        address = urlsplit(url)
        self.socket.connect((address.hostname, address.port))
        self.file = self.socket.makefile("rb")
        self.send(data)

    def send(self, data: bytes) -> None:
        """Send all data, unless the service ends the connection before."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def read_answer(self) -> Answer:
        """Read the next response, and nothing beyond it."""
        status = int(self.file.readline().split()[1])
        headers = parse_headers(self.file)
        return Answer(status, headers, self.file.read(int(headers["Content-Length"] or 0)))

    def close(self) -> None:
        self.file.close()
        self.socket.close()


Connect = Callable[..., Client]


class OwnService:
    """A running service, its PostgreSQL, and a session in its database."""

    def __init__(self, running: RunningService, postgres: OwnPostgres, session: Any) -> None:
        self.url = running.url
        self.running = running
        self.postgres = postgres
        self.session = session

    def ask(self, data: bytes) -> Answer:
        """Return the response to `data`."""
        with closing(Client(self.url, data)) as client:
            return client.read_answer()

    def execute(self, statement: str) -> None:
        self.session.cursor().execute(statement)

    def read_number(self, query: str) -> int:
        """Return the number that a query yields."""
        with self.session.cursor() as cursor:
            cursor.execute(query)
            return int(cursor.fetchone()[0])

    def count_links(self) -> int:
        return self.read_number("SELECT count(*) FROM shorturl_shorturl")

    def wait_for_workers(self, number: int = 1) -> list[psutil.Process]:
        """Return the processes of the workers, once that many have started."""
        wait_for(lambda: len(self.running.workers) == number)
        return self.running.workers

    @contextmanager
    def block_creates(self) -> Iterator[None]:
        """Have every create wait for the length of the block: it asks for banned domains."""
        with closing(self.postgres.connect()) as session, session.cursor() as cursor:
            cursor.execute("LOCK TABLE shorturl_banneddomain")
            yield


def make_create(*fields: bytes, body: bytes = NEW, path: bytes = b"/api/links") -> bytes:
    """Return a request that makes a link; the length of its body has to be among the fields."""
    head = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json"]
    return b"\r\n".join([*head, *fields, b"", body])


def make_length(body: bytes) -> bytes:
    """Return the field Content-Length of a body."""
    return b"Content-Length: %d" % len(body)


def wait_for(condition: Callable[[], object]) -> None:
    wait_until(condition, "the expected did not happen", TIMEOUT)


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnPostgres]:
    with own_postgres() as postgres:
        yield postgres


@contextmanager
def start_service(
    postgres: OwnPostgres, *arguments: str, **environment: str
) -> Iterator[OwnService]:
    """Run a service for the length of the block."""
    variables = {**NO_REFUSALS, **PATIENT, "DATABASE_URL": postgres.url, "WORKERS": "1"}
    with (
        serving(*arguments, **{**variables, **environment}) as running,
        closing(postgres.connect()) as session,
    ):
        session.autocommit = True
        yield OwnService(running, postgres, session)


@pytest.fixture(scope="module")
def service(postgres: OwnPostgres) -> Iterator[OwnService]:
    """A service with few threads, which refuses what has waited for QUEUE_TIMEOUT seconds.

    It has metrics, and leaves no file of theirs behind.
    """
    limits = {"THREADS": str(THREADS), "QUEUE_TIMEOUT_MS": str(QUEUE_TIMEOUT * 1000)}
    with TemporaryDirectory() as folder:
        settings = {**limits, "SHORTURL_METRICS_TOKEN": TOKEN, "TMPDIR": folder}
        with start_service(postgres, **settings) as service:
            yield service
        assert not list(Path(folder).glob("shorturl-metrics-*"))


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a function that makes a client of a service, until the end of the test."""
    with ExitStack() as stack:

        def connect(service: OwnService, data: bytes = b"", *, narrow: bool = False) -> Client:
            return stack.enter_context(closing(Client(service.url, data, narrow=narrow)))

        yield connect
