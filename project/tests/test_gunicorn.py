"""The start of the service, where it listens, and its messages when it fails."""

import re
import socket
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

import pytest

from loadtests.servers import serving
from project.tests.conftest import (
    GUNICORN,
    NOWHERE,
    PRODUCTION,
    ROOT,
    TIMEOUT,
    ask,
    database,
    run_in,
)
from shorturl.tests.events.test_webhooks import Receiver, receiver

__all__ = ["receiver"]  # a fixture


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_replaces_a_killed_one_delivers_events(receiver: Receiver) -> None:
    """Each worker delivers events with SHORTURL_DELIVER, which `make run` sets."""
    with (
        database("shorturl_as_make_run") as url,
        serving(DATABASE_URL=url, WORKERS="1", SHORTURL_DELIVER="on") as service,
    ):
        environment = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        added = run_in(ROOT, "manage.py", "webhook", "add", receiver.url, **environment)
        assert added.returncode == 0, added.stderr
        for worker in service.workers:
            worker.kill()
        link = '{"target_url": "https://a.example/", "key": "told"}'
        created = ask(service.url, "POST", "/api/links", link, {"Content-Type": "application/json"})
        assert created.status == HTTPStatus.CREATED
        assert receiver.received.wait(TIMEOUT)
    assert receiver.types() == ["link.created told"]


@pytest.mark.django_db(transaction=True)
def test_the_service_listens_on_ipv6_addresses_and_prints_them_as_urls() -> None:
    with database("shorturl_ipv6") as url:
        for host, printed in (("::1", "[::1]"), ("[::1]", "[::1]"), ("::", "[::]")):
            with serving(DATABASE_URL=url, WORKERS="1", HOST=host) as service:
                assert re.fullmatch(rf"http://{re.escape(printed)}:\d+", service.url)
                port = service.url.rpartition(":")[2]
                assert urlopen(f"http://[::1]:{port}/").status == HTTPStatus.OK


@pytest.mark.django_db(transaction=True)
def test_the_port_is_written_for_make_locust_only_by_a_service_that_has_started(
    tmp_path: Path,
) -> None:
    file = tmp_path / "served-at"
    with database("shorturl_served_at") as url:
        setting = {"DATABASE_URL": url, "WORKERS": "1", "SERVED_AT": str(file)}
        with serving(**setting) as service:
            port = service.url.rpartition(":")[2]
            assert file.read_text() == f"{port}\n"
            file.write_text("unchanged")
            with (
                pytest.raises(ChildProcessError, match="cannot listen"),
                serving(**setting, PORT=port),
            ):
                pass
    assert file.read_text() == "unchanged"


# PORT is in use but in the rows that set it. The service listens before it connects.
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**PRODUCTION, "PORT": "wrong"}, "PORT='wrong' is .* for example PORT=8000"),
        ({**PRODUCTION, "PORT": "0"}, "(?s:.*)Run: python manage.py collectstatic(?s:.*)"),
        ({**NOWHERE, "PORT": "0"}, "connection to server at .*\n\tIs the"),
        (NOWHERE, "cannot listen on 127.0.0.1:[0-9]+ .Address already in use.: try HOST"),
        ({**NOWHERE, "HOST": "::1"}, r"cannot listen on \[::1\]:[0-9]+ .Address already in use."),
    ],
    ids=["wrong setting", "no static files", "no database", "port in use", "port in use by IPv6"],
)
def test_a_failed_start_says_why_in_one_message(
    project_copy: Path, environment: dict[str, str], message: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_server(("::1", port), family=socket.AF_INET6):
            ended = run_in(project_copy, *GUNICORN, **{"PORT": str(port), **environment})
    assert ended.returncode == 1
    # Without the directory of static files, a warning of WhiteNoise in two lines comes first.
    assert re.fullmatch(f"(?:.*\n.*\n)?gunicorn: {message}.*\n", ended.stderr), ended.stderr
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr, "the password of NOWHERE"
