"""The running service with clients that are slow, silent, gone or too many, and its restart.

Tests of the service's time limits wait for a clock. In the others a create occupies a thread as
long as the test keeps the table locked.
"""

import json
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, parse_headers
from itertools import count
from typing import Any, NamedTuple
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
from project.serving.bridge import BODY_TIMEOUT
from project.serving.hit_counter import MAX_FAILURES

THREADS = 2
FOLLOWERS = 8
TIMEOUT = 60  # seconds
QUEUE_TIMEOUT = 3  # seconds: long enough on a busy machine
# A statement may wait for the table as long as a test needs.
PATIENT = {"PGOPTIONS": "-c lock_timeout=60s", "DATABASE_STATEMENT_TIMEOUT": "60"}
TARGET = "https://a.example/"
NEW = b'{"target_url": "https://a.example/"}'
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
PAGE = HEALTHZ.replace(b"healthz", b"")
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
FULL_DISK = """
    CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE disk_full; END $$;
    CREATE TRIGGER full_disk BEFORE UPDATE ON shorturl_shorturl
    FOR EACH ROW EXECUTE FUNCTION full_disk()
"""
FOLLOW = b"GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 Firefox/140.0\r\n\r\n"
LONG_FILE = HEALTHZ.replace(b"healthz", b"static/admin/js/vendor/jquery/jquery.js")


class Answer(NamedTuple):
    status: int
    headers: Any
    body: bytes


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

    def answer(self) -> Answer:
        """Read the next response, and nothing beyond it."""
        status = int(self.file.readline().split()[1])
        headers = parse_headers(self.file)
        return Answer(status, headers, self.file.read(int(headers["Content-Length"] or 0)))

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Served(NamedTuple):
    """A service, and a session in its database."""

    service: RunningService
    postgres: OwnPostgres
    database: Any

    def ask(self, data: bytes) -> Answer:
        """Return the response to `data`."""
        with closing(Client(self.service.url, data)) as client:
            return client.answer()

    def execute(self, statement: str) -> None:
        self.database.cursor().execute(statement)

    def read_number(self, query: str) -> int:
        """Return the number that a query yields."""
        with self.database.cursor() as cursor:
            cursor.execute(query)
            return int(cursor.fetchone()[0])

    def make_links(self, keys: str, columns: str = "", values: str = "") -> None:
        """Make a link for each of the keys, which a SELECT yields; with further columns."""
        self.execute(
            f"INSERT INTO shorturl_shorturl (key, target_url{columns}) "
            f"SELECT key, '{TARGET}'{values} FROM ({keys}) AS wanted (key)"
        )

    def count_links(self) -> int:
        return self.read_number("SELECT count(*) FROM shorturl_shorturl")

    @contextmanager
    def no_creates(self) -> Iterator[None]:
        """Have every create wait for the length of the block: it asks for banned domains."""
        with closing(self.postgres.connect()) as session, session.cursor() as cursor:
            cursor.execute("LOCK TABLE shorturl_banneddomain")
            yield


Connect = Callable[..., Client]


API = b"/api/links"


def create(*fields: bytes, body: bytes = NEW, path: bytes = API) -> bytes:
    """Return a request that makes a link, with further header fields; it has no length."""
    head = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json"]
    return b"\r\n".join([*head, *fields, b"", body])


def sized(body: bytes) -> bytes:
    """Return the Content-Length of a body."""
    return b"Content-Length: %d" % len(body)


CREATE = create(sized(NEW))


def wait_for(condition: Callable[[], object]) -> None:
    wait_until(condition, "the expected did not happen", TIMEOUT)


def wait_for_workers(served: Served, number: int = 1) -> list[psutil.Process]:
    """Return the processes of the workers, once that many have started."""
    wait_for(lambda: len(served.service.workers) == number)
    return served.service.workers


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnPostgres]:
    with own_postgres() as postgres:
        yield postgres


@contextmanager
def served(postgres: OwnPostgres, *arguments: str, **environment: str) -> Iterator[Served]:
    """Run a service for the length of the block."""
    settings = {**NO_REFUSALS, **PATIENT, "DATABASE_URL": postgres.url, "WORKERS": "1"}
    variables = {**settings, **environment}
    with serving(*arguments, **variables) as service, closing(postgres.connect()) as session:
        session.autocommit = True
        yield Served(service, postgres, session)


@pytest.fixture(scope="module")
def service(postgres: OwnPostgres) -> Iterator[Served]:
    """A service with few threads, which refuses what has waited for QUEUE_TIMEOUT seconds."""
    limits = {"THREADS": str(THREADS), "QUEUE_TIMEOUT_MS": str(QUEUE_TIMEOUT * 1000)}
    with served(postgres, **limits) as service:
        yield service


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a function that connects to a service until the end of the test."""
    with ExitStack() as stack:
        yield lambda to, data=b"", **how: stack.enter_context(
            closing(Client(to.service.url, data, **how))
        )


# --- One client ----------------------------------------------------------------------------------


def test_a_body_may_come_in_halves(service: Served, connect: Connect) -> None:
    first, second = CREATE[:-9], CREATE[-9:]  # within the body
    client = connect(service, first)
    assert service.ask(HEALTHZ).status == 200  # by now the first half is read
    client.send(second)
    assert client.answer().status == 201


def test_half_a_body_gets_a_408_after_the_time_limit(service: Served, connect: Connect) -> None:
    began = time.monotonic()
    clients = [connect(service, create(sized(NEW), path=path)[:-9]) for path in (API, b"/")]
    api, page = (client.answer() for client in clients)
    assert time.monotonic() - began >= BODY_TIMEOUT
    assert api.status == page.status == 408
    assert json.loads(api.body) == {"detail": "The body did not arrive within 5 seconds."}
    assert page.body.startswith(b"<!doctype html>")
    assert [client.socket.recv(1) for client in clients] == [b"", b""]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_still_sends_a_long_body_gets_the_answer(
    service: Served, *, chunked: bool
) -> None:
    body = bytes(4 * 1024 * 1024)  # more than the buffers hold
    field = b"Transfer-Encoding: chunked" if chunked else sized(body)
    answer = service.ask(create(field, body=b"%x\r\n" % len(body) * chunked + body))
    assert answer.status == 413
    assert json.loads(answer.body)["detail"].startswith("The body is too large")


@pytest.mark.parametrize("path", [b"healthz", b"readyz"])
def test_head_of_a_probe_has_no_body(service: Served, connect: Connect, path: bytes) -> None:
    head = HEALTHZ.replace(b"GET /healthz", b"HEAD /" + path)
    client = connect(service, head + CREATE)
    assert client.file.readline() == b"HTTP/1.1 200 OK\r\n"
    parse_headers(client.file)
    assert client.answer().status == 201  # no body is before it


def test_a_client_that_expects_100_continue_gets_it(service: Served, connect: Connect) -> None:
    client = connect(service, create(sized(NEW), b"Expect: 100-continue", body=b""))
    assert client.answer().status == 100
    client.send(NEW)
    assert client.answer().status == 201


def test_two_requests_in_one_packet_are_answered_in_order(
    service: Served, connect: Connect
) -> None:
    client = connect(service, CREATE + HEALTHZ)  # the second one needs no thread
    assert [client.answer().status, client.answer().status] == [201, 200]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (b"api/links", b"names no host of this service"),
        (b"", b"<!doctype html>"),
        (b"spring", b"<!doctype html>"),
        (b"static/lab/lab.css", b"<!doctype html>"),
    ],
)
def test_a_request_without_a_host_is_refused(service: Served, path: bytes, message: bytes) -> None:
    answer = service.ask(HEALTHZ.replace(b"healthz", path).replace(b"Host", b"X"))
    assert answer.status == 400
    assert message in answer.body


@pytest.mark.parametrize("field", [b"-Proto: https", b"-Ssl: on", b"-Protocol: ssl"])
def test_a_forwarded_header_is_ignored(service: Served, field: bytes) -> None:
    """Even from this machine: only BEHIND_PROXY says that there is a proxy."""
    answer = service.ask(create(sized(NEW), b"X-Forwarded" + field))
    assert json.loads(answer.body)["short_url"].startswith("http://localhost/")


@pytest.mark.parametrize(
    ("sent", "echoed"), [(b"of-a.proxy_1", "of-a.proxy_1"), (b"", None), (b"x" * 129, None)]
)
def test_the_request_id_of_a_proxy_is_echoed(
    service: Served, sent: bytes, echoed: str | None
) -> None:
    for request in (HEALTHZ, FOLLOW % b"/unknown"):
        answer = service.ask(request[:-2] + b"X-Request-Id: " + sent + b"\r\n\r\n")
        assert answer.headers["X-Request-Id"] == echoed


def test_there_is_no_websocket(service: Served) -> None:
    fields = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    assert service.ask(HEALTHZ[:-2] + fields + key).status == 403


# --- Many clients --------------------------------------------------------------------------------


def test_the_backlog_holds_many_connections(service: Served) -> None:
    (worker,) = wait_for_workers(service)
    address = urlsplit(service.service.url)

    def is_room() -> bool:
        worker.suspend()
        try:
            with ExitStack() as stack:
                for _ in range(300):  # the kernel alone answers, at once or never
                    client = socket.create_connection((address.hostname, address.port), timeout=1)
                    stack.enter_context(client)
        except TimeoutError:
            return False
        finally:
            worker.resume()
        return True

    wait_for(is_room)  # the worker sets the backlog some time after its start


@pytest.mark.parametrize(
    "data",
    [
        b"",
        CREATE[:30],
        create(b"Content-Length: 2000000", path=b"/api/links/bulk", body=b"1"),
        create(b"Transfer-Encoding: chunked", path=b"/api/links/bulk", body=b"1"),
    ],
)
def test_what_does_not_arrive_delays_no_other_client(
    service: Served, connect: Connect, data: bytes
) -> None:
    for _ in range(200):
        connect(service, data)
    assert service.ask(CREATE).status == 201
    assert service.ask(PAGE).status == 200


def test_a_client_that_never_reads_delays_no_other_one(service: Served, connect: Connect) -> None:
    (worker,) = wait_for_workers(service)
    for number in range(100):
        client = connect(service, LONG_FILE * 20, narrow=True)
        assert client.file.read(15) == b"HTTP/1.1 200 OK"
        if number == 20:
            # The kernel ends these connections after ten seconds. The test must not wait for that.
            assert len(worker.net_connections()) > 3 * THREADS
    assert service.ask(CREATE).status == 201


def occupy_threads(service: Served, connect: Connect) -> list[Client]:
    """Return clients whose requests occupy all threads, which wait for the table."""
    clients = [connect(service, CREATE) for _ in range(THREADS)]
    wait_for(lambda: service.read_number(WAITING) == THREADS)
    return clients


def test_a_client_that_leaves_takes_no_thread(service: Served, connect: Connect) -> None:
    before = service.count_links()
    (worker,) = wait_for_workers(service)
    with service.no_creates():
        gone = occupy_threads(service, connect)
        gone += [connect(service, CREATE) for _ in range(40)]
        assert service.ask(HEALTHZ).status == 200  # now the others wait
        for client in gone:
            client.close()
        wait_for(
            lambda: (
                {connection.status for connection in worker.net_connections()}
                == {psutil.CONN_LISTEN}
            )
        )
    assert service.ask(CREATE).status == 201
    # Of those that left, the requests in the threads are processed.
    wait_for(lambda: service.count_links() >= before + THREADS + 1)
    assert service.count_links() == before + THREADS + 1


def test_a_request_without_a_thread_is_refused_and_probes_have_their_own(
    service: Served, connect: Connect
) -> None:
    with service.no_creates():
        clients = occupy_threads(service, connect)
        requests = (CREATE, PAGE, PAGE.replace(b"GET", b"HEAD"))
        create_client, page_client, head_client = (connect(service, data) for data in requests)
        assert service.ask(HEALTHZ).status == 200
        assert service.ask(HEALTHZ.replace(b"healthz", b"readyz")).status == 200
        api, page = create_client.answer(), page_client.answer()
        assert head_client.file.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert (api.status, page.status) == (503, 503)
    assert api.headers["Retry-After"] == page.headers["Retry-After"] == "1"
    assert json.loads(api.body) == {"detail": "Too many requests at the moment."}
    assert page.body.startswith(b"<!doctype html>")
    assert page.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert {client.answer().status for client in clients} == {201}


@pytest.mark.parametrize(
    ("columns", "links", "query"),
    [
        pytest.param((", forward_query", ", true"), 1, "a=1", id="one that forwards its query"),
        pytest.param((), 200, "utm_source=x", id="200 links, and a query that names a source"),
        pytest.param((", max_hits", ", 1"), 200, "utm_source=x", id="200 links with one use"),
    ],
)
def test_each_hit_is_counted_and_redirected_when_no_thread_is_free(
    service: Served, connect: Connect, columns: tuple[str, ...], links: int, query: str
) -> None:
    """Redirects need none of Django's threads: 200 follow the links while all are occupied."""
    service.make_links(f"SELECT 'hit' || n FROM generate_series(1, {links}) n", *columns)
    paths = [b"/hit%d?%s" % (1 + number % links, query.encode()) for number in range(200)]
    with service.no_creates():
        clients = occupy_threads(service, connect)
        with ThreadPoolExecutor(FOLLOWERS) as pool:
            answers = [*pool.map(service.ask, [FOLLOW % path for path in paths])]
        assert service.ask(PAGE).status == 503
    assert {client.answer().status for client in clients} == {201}
    assert {answer.status for answer in answers} == {302}
    hits = service.read_number("SELECT sum(hits) FROM shorturl_shorturl WHERE key LIKE 'hit%'")
    assert hits == len(paths)
    service.execute("DELETE FROM shorturl_shorturl WHERE key LIKE 'hit%'")


# --- PostgreSQL that refuses ----------------------------------------------------------------------


def test_a_locked_row_is_a_503_soon_and_no_other_key_waits(postgres: OwnPostgres) -> None:
    with served(postgres, PGOPTIONS="-c lock_timeout=500ms") as service:
        service.make_links("VALUES ('locked'), ('free')")
        with closing(postgres.connect()) as other, other.cursor() as cursor:
            cursor.execute("SELECT FROM shorturl_shorturl WHERE key = 'locked' FOR UPDATE")
            with closing(Client(service.service.url, FOLLOW % b"/locked")) as waiting:
                assert service.ask(FOLLOW % b"/free").status == 302
                answer = waiting.answer()
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert b"Too many requests follow this short URL" in answer.body
        assert service.ask(FOLLOW % b"/locked").status == 302


def test_a_service_whose_redirects_fail_is_not_ready(service: Served) -> None:
    """A full disk fails the statements that write. After a redirect it is ready again."""
    service.make_links("VALUES ('a')")
    readyz = HEALTHZ.replace(b"healthz", b"readyz")
    assert service.ask(readyz).status == 200
    service.execute(FULL_DISK)
    try:
        for _ in range(MAX_FAILURES):
            answer = service.ask(FOLLOW % b"/a")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert b"The database is not answering" in answer.body
        assert service.ask(FOLLOW % b"/unknown").status == 404
        answer = service.ask(readyz)
        assert answer.status == 503
        assert b"the last redirects failed; the log says why" in answer.body
    finally:
        service.execute("DROP TRIGGER full_disk ON shorturl_shorturl")
    assert service.ask(FOLLOW % b"/a").status == 302
    assert service.ask(readyz).status == 200


# --- The end of workers --------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_no_hit_is_lost_or_invented_when_workers_end(postgres: OwnPostgres) -> None:
    """First the workers are replaced, and then the service ends."""
    statuses: Counter[int] = Counter()
    sent = count()

    def follow(url: str, path: str) -> None:
        """Follow the link until the service listens no more."""
        with closing(HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)) as http:
            while True:
                try:
                    http.connect()
                except ConnectionError:
                    return
                with suppress(HTTPException, ConnectionError):  # the worker has ended
                    while next(sent) >= 0:
                        http.request("GET", path, headers={"User-Agent": "Firefox"})
                        with http.getresponse() as response:
                            statuses[response.status] += 1
                http.close()

    with served(postgres, WORKERS="2") as pair, ThreadPoolExecutor(FOLLOWERS) as pool:
        process = pair.service.process
        first = {*wait_for_workers(pair, 2)}
        key = json.loads(pair.ask(CREATE).body)["key"]
        followers = [pool.submit(follow, pair.service.url, f"/{key}") for _ in range(FOLLOWERS)]
        wait_for(lambda: statuses[302] > 10 * FOLLOWERS)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: not first & {*wait_for_workers(pair, 2)})
        process.terminate()
        assert process.wait(TIMEOUT) == 0
        for follower in followers:
            follower.result()
        hits = pair.read_number(f"SELECT hits FROM shorturl_shorturl WHERE key = '{key}'")
    assert statuses.keys() == {302}
    assert statuses[302] <= hits <= next(sent)  # which is the number of requests that were sent
