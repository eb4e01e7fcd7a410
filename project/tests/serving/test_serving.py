"""The running service with clients that are slow, silent, gone or too many, and its restart.

Tests of the service's time limits wait for a clock. In the others a create occupies a thread as
long as the test keeps the table locked.
"""

import json
import re
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import psutil
import pytest

from loadtests.servers import OwnPostgres
from project.serving.bridge import BODY_TIMEOUT, MAX_BODY_BYTES
from project.serving.hit_counter import MAX_FAILURES, MAX_KEY_STATEMENTS
from project.tests.conftest import TIMEOUT
from project.tests.serving.conftest import (
    NEW,
    THREADS,
    TOKEN,
    Client,
    Connect,
    OwnService,
    make_create,
    make_length,
    start_service,
    wait_for,
)

FOLLOWERS = 8
CREATE = make_create(make_length(NEW))
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
READYZ = HEALTHZ.replace(b"healthz", b"readyz")
PAGE = HEALTHZ.replace(b"healthz", b"")
HEADERS = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 8_000) for number in range(95))  # 760 kB
MAX_MEMORY = 250_000_000  # bytes of a worker
MANY_CONNECTIONS = 300  # more than asyncio's own backlog of 100
LONG_FILE = HEALTHZ.replace(b"healthz", b"static/admin/js/vendor/jquery/jquery.js")
FOLLOW = b"GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 Firefox/140.0\r\n\r\n"
COUNT_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
INSERT_LINKS = "INSERT INTO shorturl_shorturl (key, target_url, max_hits, forward_query) "
FULL_DISK = """
    CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE disk_full; END $$;
    CREATE TRIGGER full_disk BEFORE UPDATE ON shorturl_shorturl
    FOR EACH ROW EXECUTE FUNCTION full_disk()
"""


# --- One client ----------------------------------------------------------------------------------


def test_half_a_body_is_refused_after_the_time_limit_and_its_rest_is_no_request(
    service: OwnService, connect: Connect
) -> None:
    """The connection ends. What comes then would be read as the next request."""
    before = service.count_links()
    began = time.monotonic()
    paths = (b"/api/links", b"/")
    requests = [make_create(make_length(NEW + CREATE), path=path, body=NEW[:18]) for path in paths]
    too_large = bytes(MAX_BODY_BYTES + 1)
    requests.append(make_create(make_length(too_large + CREATE), body=too_large))
    clients = [connect(service, request) for request in requests]
    api, page, large = (client.read_answer() for client in clients)
    assert time.monotonic() - began >= BODY_TIMEOUT
    assert [answer.status for answer in (api, page, large)] == [408, 408, 413]
    assert json.loads(api.body) == {"detail": "The body did not arrive within 5 seconds."}
    assert page.body.startswith(b"<!doctype html>")
    assert {answer.headers["Connection"] for answer in (api, page, large)} == {"close"}
    for client in clients:
        client.send(CREATE)
        with suppress(ConnectionError):
            assert client.socket.recv(1) == b""
    assert service.count_links() == before


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_still_sends_a_long_body_gets_the_answer(
    service: OwnService, *, chunked: bool
) -> None:
    body = bytes(4 * 1024 * 1024)  # more than the buffers hold
    if chunked:
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        request = make_create(b"Transfer-Encoding: chunked", body=chunks)
    else:
        request = make_create(make_length(body), body=body)
    answer = service.ask(request)
    assert answer.status == 413
    assert json.loads(answer.body)["detail"].startswith("The body is too large")


def test_a_long_request_that_comes_before_the_answer_to_the_last_one_is_answered(
    service: OwnService, connect: Connect
) -> None:
    """A client or a proxy may also send it while the connection turns to its next request."""
    body = NEW.ljust(MAX_BODY_BYTES)
    long_create = make_create(make_length(body), body=body)
    with service.block_creates():
        client = connect(service, CREATE + long_create)
        wait_for(lambda: service.read_number(COUNT_WAITING))
    assert [client.read_answer().status for _ in range(2)] == [201, 201]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (b"api/links", b"names no host of this service"),
        (b"", b"<!doctype html>"),
        (b"spring", b"<!doctype html>"),
        (b"static/lab/lab.css", b"<!doctype html>"),
    ],
)
def test_a_request_without_a_host_is_refused(
    service: OwnService, path: bytes, message: bytes
) -> None:
    answer = service.ask(HEALTHZ.replace(b"healthz", path).replace(b"Host", b"X"))
    assert answer.status == 400
    assert message in answer.body


def test_headers_of_a_proxy_are_ignored(service: OwnService) -> None:
    """Even from this machine: only BEHIND_PROXY says that there is a proxy."""
    for field in (b"X-Forwarded-Proto: https", b"X-Forwarded-Ssl: on"):
        answer = service.ask(make_create(make_length(NEW), field))
        assert json.loads(answer.body)["short_url"].startswith("http://localhost/")


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        (b"of-a.proxy_1", "of-a.proxy_1"),
        *((sent, None) for sent in (b"", b"a b", b"a\x01", b"\x7f", b"\xe9", b"x" * 129)),
    ],
)
def test_the_request_id_of_a_proxy_is_echoed(
    service: OwnService, sent: bytes, echoed: str | None
) -> None:
    for request in (HEALTHZ, FOLLOW % b"/unknown"):
        fields = request.removesuffix(b"\r\n")  # without the line that ends them
        answer = service.ask(fields + b"X-Request-Id: " + sent + b"\r\n\r\n")
        assert answer.headers["X-Request-Id"] == echoed


def test_there_is_no_websocket(service: OwnService) -> None:
    fields = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    assert service.ask(HEALTHZ.removesuffix(b"\r\n") + fields + key).status == 403


# --- Many clients --------------------------------------------------------------------------------


def test_the_backlog_holds_many_connections(service: OwnService) -> None:
    """While the worker is stopped, the kernel alone accepts connections: at once or never."""
    (worker,) = service.wait_for_workers()
    address = urlsplit(service.url)

    def is_room() -> bool:
        worker.suspend()
        try:
            with ExitStack() as stack:
                for _ in range(MANY_CONNECTIONS):
                    client = socket.create_connection((address.hostname, address.port), timeout=1)
                    stack.enter_context(client)
        except TimeoutError:
            return False
        finally:
            worker.resume()
        return True

    wait_for(is_room)  # the worker sets the backlog some time after its start


BULK = b"/api/links/bulk"
INCOMPLETE = {
    "nothing": b"",
    "a part of the headers": CREATE[:30],
    "a part of a body": make_create(b"Content-Length: 2000000", path=BULK, body=b"1"),
    "a part of a chunk": make_create(b"Transfer-Encoding: chunked", path=BULK, body=b"1"),
}


@pytest.mark.parametrize("data", INCOMPLETE.values(), ids=INCOMPLETE)
def test_what_does_not_arrive_delays_no_other_client(
    service: OwnService, connect: Connect, data: bytes
) -> None:
    for _ in range(200):
        connect(service, data)
    assert service.ask(CREATE).status == 201
    assert service.ask(PAGE).status == 200


def test_clients_that_never_read_delay_no_other_one(service: OwnService, connect: Connect) -> None:
    (worker,) = service.wait_for_workers()
    for number in range(100):
        client = connect(service, LONG_FILE * 20, narrow=True)
        assert client.file.read(15) == b"HTTP/1.1 200 OK"
        if number == 20:
            # The kernel ends these connections after ten seconds. The test must not wait for that.
            assert len(worker.net_connections()) > 3 * THREADS
    assert service.ask(CREATE).status == 201


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
    """One connection at a time, and nothing is kept of the headers of those that have ended."""
    (worker,) = service.wait_for_workers()
    request = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + HEADERS + end
    for _ in range(visits):
        client = connect(service, request)
        if end:
            assert client.read_answer().status == 404
        client.close()
    assert service.ask(HEALTHZ).status == 200
    assert worker.memory_info().rss < MAX_MEMORY


def read_metrics(service: OwnService) -> dict[str, float]:
    field = f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
    answer = service.ask(HEALTHZ.replace(b"healthz", b"metrics").removesuffix(b"\r\n") + field)
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    lines = re.findall(r"^(\S+) ([\d.]+)$", answer.body.decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_the_metrics_count_answers_refusals_and_statements_of_both_ways(
    service: OwnService, connect: Connect
) -> None:
    """A request that finds no thread is refused for overload. One that is too large is not."""
    service.execute(f"{INSERT_LINKS} VALUES ('m', 'https://a.example/', NULL, false)")
    statements = 'shorturl_statement_seconds_count{outcome="ok"}'
    before = read_metrics(service)
    assert service.ask(FOLLOW % b"/m").status == 302
    of_a_redirect = read_metrics(service)
    assert of_a_redirect[statements] > before[statements]
    assert service.ask(READYZ).status == 200
    of_a_probe = read_metrics(service)
    assert of_a_probe[statements] > of_a_redirect[statements]
    large = bytes(MAX_BODY_BYTES + 1)
    assert service.ask(make_create(make_length(large), body=large)).status == 413
    with service.block_creates():
        clients = occupy_threads(service, connect)
        assert service.ask(PAGE).status == 503
    assert {client.read_answer().status for client in clients} == {201}
    after = read_metrics(service)
    more = {name: int(number - before.get(name, 0)) for name, number in after.items()}
    responses = {name: number for name, number in more.items() if "_total" in name and number}
    assert responses == {
        'shorturl_responses_total{status="302",to="redirect"}': 1,
        'shorturl_responses_total{status="413",to="api"}': 1,
        'shorturl_responses_total{status="201",to="api"}': THREADS,
        'shorturl_responses_total{status="503",to="page"}': 1,
        'shorturl_responses_total{status="200",to="page"}': 4,  # of probes
        "shorturl_refused_total": 1,
    }


def occupy_threads(service: OwnService, connect: Connect) -> list[Client]:
    """Return clients whose requests occupy all threads, which wait for the table."""
    clients = [connect(service, CREATE) for _ in range(THREADS)]
    wait_for(lambda: service.read_number(COUNT_WAITING) == THREADS)
    return clients


def test_a_client_that_leaves_takes_no_thread(service: OwnService, connect: Connect) -> None:
    before = service.count_links()
    (worker,) = service.wait_for_workers()

    def has_no_client() -> bool:
        statuses = {connection.status for connection in worker.net_connections()}
        return statuses == {psutil.CONN_LISTEN}

    with service.block_creates():
        clients = occupy_threads(service, connect)
        clients += [connect(service, CREATE) for _ in range(40)]
        assert service.ask(HEALTHZ).status == 200  # now the others wait
        for client in clients:
            client.close()
        wait_for(has_no_client)
    assert service.ask(CREATE).status == 201
    # Of those that left, the requests in the threads are processed.
    wait_for(lambda: service.count_links() >= before + THREADS + 1)
    assert service.count_links() == before + THREADS + 1


def test_a_request_without_a_free_thread_is_refused_and_a_probe_is_answered(
    service: OwnService, connect: Connect
) -> None:
    with service.block_creates():
        clients = occupy_threads(service, connect)
        requests = (CREATE, PAGE, PAGE.replace(b"GET", b"HEAD"))
        create_client, page_client, head_client = (connect(service, data) for data in requests)
        assert service.ask(HEALTHZ).status == 200
        assert service.ask(READYZ).status == 200
        api, page = create_client.read_answer(), page_client.read_answer()
        assert head_client.file.readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
    assert (api.status, page.status) == (503, 503)
    assert api.headers["Retry-After"] == page.headers["Retry-After"] == "1"
    assert json.loads(api.body) == {"detail": "Too many requests at the moment."}
    assert page.body.startswith(b"<!doctype html>")
    assert page.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert {client.read_answer().status for client in clients} == {201}


@pytest.mark.parametrize(
    ("links", "columns", "query"),  # the number of links, their max_hits and forward_query
    [
        pytest.param(1, "NULL, true", b"a=1", id="one that forwards its query"),
        pytest.param(200, "NULL, false", b"utm_source=x", id="200, and a query with a source"),
        pytest.param(200, "1, false", b"utm_source=x", id="200 with one use"),
    ],
)
def test_each_hit_is_counted_and_redirected_when_no_thread_is_free(
    service: OwnService, connect: Connect, links: int, columns: str, query: bytes
) -> None:
    """Redirects need none of Django's threads: 200 follow the links while all are occupied."""
    rows = f"SELECT 'hit' || n, 'https://a.example/', {columns} FROM generate_series(1, {links}) n"
    service.execute(INSERT_LINKS + rows)
    paths = [b"/hit%d?%s" % (1 + number % links, query) for number in range(200)]
    with service.block_creates():
        clients = occupy_threads(service, connect)
        with ThreadPoolExecutor(FOLLOWERS) as pool:
            answers = [*pool.map(service.ask, [FOLLOW % path for path in paths])]
        assert service.ask(PAGE).status == 503
    assert {client.read_answer().status for client in clients} == {201}
    assert {answer.status for answer in answers} == {302}
    hits = service.read_number("SELECT sum(hits) FROM shorturl_shorturl WHERE key LIKE 'hit%'")
    assert hits == len(paths)
    service.execute("DELETE FROM shorturl_shorturl WHERE key LIKE 'hit%'")


# --- PostgreSQL that refuses ----------------------------------------------------------------------


def test_a_frozen_postgresql_makes_the_service_unready_and_delays_no_probe_for_long(
    service: OwnService,
) -> None:
    """PostgreSQL itself cannot end the statement. /readyz gives it two seconds."""
    assert service.ask(READYZ).status == 200
    frozen = service.postgres.processes()
    for process in frozen:
        process.suspend()
    try:
        answer = service.ask(READYZ)
        assert service.ask(HEALTHZ).status == 200
    finally:
        for process in frozen:
            process.resume()
    assert answer.status == 503
    assert b"the database does not answer" in answer.body
    assert service.ask(READYZ).status == 200


def test_a_service_whose_redirects_fail_is_not_ready(service: OwnService) -> None:
    """A full disk fails the statements that write. After a redirect it is ready again."""
    service.execute(f"{INSERT_LINKS} VALUES ('a', 'https://a.example/', NULL, false)")
    assert service.ask(READYZ).status == 200
    service.execute(FULL_DISK)
    try:
        for _ in range(MAX_FAILURES + MAX_KEY_STATEMENTS):  # more than it has sessions
            answer = service.ask(FOLLOW % b"/a")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert b"The database is not answering" in answer.body
        assert service.ask(FOLLOW % b"/unknown").status == 404
        answer = service.ask(READYZ)
        assert answer.status == 503
        assert b"the last redirects failed; the log says why" in answer.body
    finally:
        service.execute("DROP TRIGGER full_disk ON shorturl_shorturl")
    assert service.ask(FOLLOW % b"/a").status == 302
    assert service.ask(READYZ).status == 200


# --- The end of workers --------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_no_hit_is_lost_or_invented_when_workers_end(postgres: OwnPostgres) -> None:
    """First the workers are replaced, and then the service ends."""

    def follow_until_the_end(url: str, path: str) -> Counter[str]:
        """Follow the link until the service listens no more; return what was sent and answered."""
        counts = Counter[str]()
        while True:
            with closing(HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)) as http:
                try:
                    http.connect()
                except ConnectionError:
                    return counts
                with suppress(HTTPException, ConnectionError):  # the worker has ended
                    while True:
                        counts["sent"] += 1
                        http.request("GET", path, headers={"User-Agent": "Firefox"})
                        with http.getresponse() as response:
                            counts[str(response.status)] += 1

    with start_service(postgres, WORKERS="2") as pair, ThreadPoolExecutor(FOLLOWERS) as pool:
        master = pair.running.process
        first_workers = {*pair.wait_for_workers(2)}
        key = json.loads(pair.ask(CREATE).body)["key"]
        hits = f"SELECT hits FROM shorturl_shorturl WHERE key = '{key}'"
        followers = [
            pool.submit(follow_until_the_end, pair.url, f"/{key}") for _ in range(FOLLOWERS)
        ]
        wait_for(lambda: pair.read_number(hits) > 10 * FOLLOWERS)
        master.send_signal(signal.SIGHUP)
        wait_for(lambda: not first_workers & {*pair.wait_for_workers(2)})
        master.terminate()
        assert master.wait(TIMEOUT) == 0
        counts = sum((follower.result() for follower in followers), Counter[str]())
        assert counts.keys() == {"sent", "302"}
        assert counts["302"] <= pair.read_number(hits) <= counts["sent"]
