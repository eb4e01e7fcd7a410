"""The start of the service, and its messages when it fails."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from django.db import connection

from lab.scratch_database import drop, name_beside
from loadtests.harness.serving import serving
from project.tests.conftest import PRODUCTION, ROOT, run_in
from project.tests.serving.test_unavailable import TIMEOUT
from shorturl.tests.events.test_webhooks import Receiver, receiver

__all__ = ["receiver"]  # a fixture

CONFIG = ("-m", "gunicorn", "-c", "project/gunicorn.py")
NOWHERE = {
    "DATABASE_URL": "postgres://user:secret@127.0.0.1:1/shorturl",
    "SHORTURL_LOCAL": "on",
}


@contextmanager
def database(name: str) -> Iterator[str]:
    """Make an empty database beside the tests' own, and yield its address."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    try:
        parameters = connection.get_connection_params()
        user = parameters.get("user") or os.environ.get("USER", "")
        password = f":{parameters['password']}" if parameters.get("password") else ""
        host, port = parameters.get("host", ""), parameters.get("port") or 5432
        yield f"postgres://{user}{password}@/{name}?host={host}&port={port}"
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
        drop(connection, name_beside(name))  # which a page of the lab has made


def text_of(http: HTTPConnection, path: str) -> str:
    http.request("GET", path)
    return http.getresponse().read().decode()


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_a_page_explores_itself_and_every_worker_delivers(receiver: Receiver) -> None:
    """`make run` sets SHORTURL_DELIVER. The exploring process is not a worker."""
    page = "/lab/races/lost_update/update_returning/2/"
    with (
        database("shorturl_as_make_run") as url,
        serving(DATABASE_URL=url, WORKERS="1", SHORTURL_DELIVER="on") as service,
        closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http,
    ):
        deadline = time.monotonic() + TIMEOUT
        while "The invariant holds" not in (shown := text_of(http, page)):
            assert "is being explored" in shown
            assert time.monotonic() < deadline
        also = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        added = run_in(ROOT, "manage.py", "webhook", "add", receiver.url, **also)
        assert added.returncode == 0, added.stderr
        for worker in psutil.Process(service.process.pid).children():
            worker.kill()
        http.close()
        body = '{"target_url": "https://a.example/", "key": "told"}'
        http.request("POST", "/api/links", body, {"Content-Type": "application/json"})
        assert http.getresponse().status == HTTPStatus.CREATED
        assert receiver.noted.wait(TIMEOUT)
    assert receiver.types() == ["link.created told"]


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({**PRODUCTION, "PORT": "wrong"}, "gunicorn: PORT='wrong' is .* for example PORT=8000"),
        ({**PRODUCTION, "PORT": "0"}, "(?s:.*)Run: python manage.py collectstatic(?s:.*)"),
        (
            {**NOWHERE, "PORT": "0"},
            "gunicorn: the database is unavailable: connection to server at .*\n\tIs the",
        ),
        (NOWHERE, "gunicorn: cannot listen on 127.0.0.1:[0-9]+ .Address already in use.: choose"),
    ],
)
def test_why_it_does_not_start_is_short(
    project_copy: Path, environment: dict[str, str], line: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_in(project_copy, *CONFIG, **{"PORT": port, **environment})
    assert ended.returncode == 1
    assert re.fullmatch(f"{line}.*\n", ended.stderr), ended.stderr
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr
