"""The start of the service, where it listens, and its messages when it fails."""

import re
import socket
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest

from loadtests.servers import serving
from project.tests.conftest import GUNICORN, NOWHERE, PRODUCTION, ROOT, TIMEOUT, database, run_in
from shorturl.tests.events.test_webhooks import Receiver, receiver

__all__ = ["receiver"]  # a fixture


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_replaces_a_killed_one_delivers(receiver: Receiver) -> None:
    """`make run` sets SHORTURL_DELIVER."""
    with (
        database("shorturl_as_make_run") as url,
        serving(DATABASE_URL=url, WORKERS="1", SHORTURL_DELIVER="on") as service,
        closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http,
    ):
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


@pytest.mark.django_db(transaction=True)
def test_it_listens_on_ipv6_addresses_and_prints_them_as_urls() -> None:
    with database("shorturl_ipv6") as url:
        for host, printed in (("::1", "[::1]"), ("[::1]", "[::1]"), ("::", "[::]")):
            with serving(DATABASE_URL=url, WORKERS="1", HOST=host) as service:
                assert re.fullmatch(rf"http://{re.escape(printed)}:\d+", service.url)
                port = service.url.rpartition(":")[2]
                assert urlopen(f"http://[::1]:{port}/").status == HTTPStatus.OK


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**PRODUCTION, "PORT": "wrong"}, "PORT='wrong' is .* for example PORT=8000"),
        ({**PRODUCTION, "PORT": "0"}, "(?s:.*)Run: python manage.py collectstatic(?s:.*)"),
        ({**NOWHERE, "PORT": "0"}, "connection to server at .*\n\tIs the"),
        (NOWHERE, "cannot listen on 127.0.0.1:[0-9]+ .Address already in use.: try HOST"),
        ({**NOWHERE, "HOST": "::1"}, r"cannot listen on \[::1\]:[0-9]+ .Address already in use."),
    ],
)
def test_a_failed_start_says_why_in_one_message(
    project_copy: Path, environment: dict[str, str], message: str
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.create_server(("::1", taken.getsockname()[1]), family=socket.AF_INET6),
    ):
        port = str(taken.getsockname()[1])
        ended = run_in(project_copy, *GUNICORN, **{"PORT": port, **environment})
    assert ended.returncode == 1
    assert re.fullmatch(f"(?:.*\n.*\n)?gunicorn: {message}.*\n", ended.stderr), ended.stderr
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr
