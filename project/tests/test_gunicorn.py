"""How the service starts, and what it says when it cannot."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from loadtests.harness.serving import serving
from project.tests.conftest import run_in
from project.tests.test_unavailable import TIMEOUT

CONFIG = ("-m", "gunicorn", "-c", "project/gunicorn.py")
NOWHERE = "postgres://user:secret@127.0.0.1:1/shorturl"


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


@pytest.mark.django_db(transaction=True)
def test_a_forwarded_header_is_not_believed() -> None:
    """Not even from this machine: whether there is a proxy is for BEHIND_PROXY to say."""
    with database("shorturl_forwarded") as url, serving(DATABASE_URL=url, WORKERS="1") as service:

        def created(**headers: str) -> str:
            headers["Content-Type"] = "application/json"
            with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
                http.request("POST", "/api/links", '{"target_url": "https://a.example/"}', headers)
                return http.getresponse().read().decode()

        for headers in (
            {"X-Forwarded-Proto": "https"},
            {"X-Forwarded-Ssl": "on"},
            {"X-Forwarded-Protocol": "ssl", "X-Forwarded-Proto": "http"},
        ):
            assert f'"short_url": "{service.url}/' in created(**headers)


def test_a_taken_port_is_one_line(project_copy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_in(
            project_copy, *CONFIG, PORT=str(port), DATABASE_URL=NOWHERE, SHORTURL_LOCAL="on"
        )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"gunicorn: cannot listen on 127.0.0.1:{port} (Address already in use)")


def test_a_database_that_is_away_is_one_line(project_copy: Path) -> None:
    ended = run_in(project_copy, *CONFIG, PORT="0", DATABASE_URL=NOWHERE, SHORTURL_LOCAL="on")
    assert ended.returncode == 1
    assert ended.stderr.startswith("gunicorn: the database is unavailable: connection to server at")
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr
