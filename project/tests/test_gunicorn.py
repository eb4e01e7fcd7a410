"""The start of the service, where it listens, and its messages when it fails."""

import re
import resource
import secrets
import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import psutil
import pytest

from loadtests.servers import RunningService, serving, wait_until
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


class DeliveringService(NamedTuple):
    """A service with one worker, which delivers events, and the environment of its commands."""

    running: RunningService
    environment: dict[str, str]

    def create_link(self, key: str) -> None:
        link = f'{{"target_url": "https://a.example/", "key": "{key}"}}'
        headers = {"Content-Type": "application/json"}
        created = ask(self.running.url, "POST", "/api/links", link, headers)
        assert created.status == HTTPStatus.CREATED

    def run_webhook(self, *arguments: str) -> str:
        """Run `manage.py webhook`, and return its output."""
        ended = run_in(ROOT, "manage.py", "webhook", *arguments, **self.environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def is_listening(self) -> bool:
        try:
            ask(self.running.url, "GET", "/healthz")
        except ConnectionError:
            return False
        return True


@pytest.fixture
def delivering(receiver: Receiver) -> Iterator[DeliveringService]:
    """Run a service that delivers to the receiver."""
    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        environment = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        with serving(WORKERS="1", SHORTURL_DELIVER="on", **environment) as running:
            service = DeliveringService(running, environment)
            service.run_webhook("add", receiver.url)
            yield service


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_replaces_a_killed_one_delivers_events(
    receiver: Receiver, delivering: DeliveringService
) -> None:
    """Each worker delivers events with SHORTURL_DELIVER, which `make run` sets."""
    for worker in delivering.running.workers:
        worker.kill()
    delivering.create_link("told")
    assert receiver.received.wait(TIMEOUT)
    delivering.running.process.terminate()
    assert delivering.running.process.wait(TIMEOUT) == 0
    assert receiver.types() == ["link.created told"]


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_ends_finishes_a_delivery_and_begins_no_other(
    receiver: Receiver, delivering: DeliveringService
) -> None:
    """Two events wait. One is under way when SIGTERM comes, and is acknowledged afterwards."""
    receiver.answering.clear()
    for key in ("first", "second"):
        delivering.create_link(key)
    assert receiver.received.wait(TIMEOUT)
    delivering.running.process.terminate()
    # The master and the worker, in this order, listen no longer.
    wait_until(lambda: not delivering.is_listening(), "the service listens", TIMEOUT)
    receiver.answering.set()
    assert delivering.running.process.wait(TIMEOUT) == 0
    assert receiver.types() == ["link.created first"]
    assert delivering.run_webhook("list") == f"{receiver.url}  1 event waiting\n"


@pytest.mark.django_db(transaction=True)
def test_the_service_listens_on_ipv6_addresses_and_prints_them_as_urls() -> None:
    with database("shorturl_ipv6") as url:
        for host, printed in (("[::1]", "[::1]"), ("::", "[::]")):
            with serving(DATABASE_URL=url, WORKERS="1", HOST=host) as service:
                assert re.fullmatch(rf"http://{re.escape(printed)}:\d+", service.url)
                port = service.url.rpartition(":")[2]
                assert urlopen(f"http://[::1]:{port}/").status == HTTPStatus.OK
                service.process.terminate()
                assert service.process.stdout
                # No name of the service is [::].
                names = "answers only to these names: ALLOWED_HOSTS=127.0.0.1, localhost, [::1]"
                assert (names in service.process.stdout.read()) is (host == "::")


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let the programs of a test begin with a low limit of open files, and so of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
@pytest.mark.django_db(transaction=True)
def test_the_port_is_written_for_make_locust_only_by_a_service_that_has_started(
    tmp_path: Path,
) -> None:
    file = tmp_path / "served-at"
    with database("shorturl_served_at") as url:
        setting = {"DATABASE_URL": url, "WORKERS": "1", "SERVED_AT": str(file)}
        with serving(**setting) as service:
            soft, hard = psutil.Process(service.process.pid).rlimit(psutil.RLIMIT_NOFILE)
            assert soft == hard
            port = service.url.rpartition(":")[2]
            assert file.read_text() == f"{port}\n"
            file.write_text("unchanged")
            with (
                pytest.raises(ChildProcessError, match="cannot listen"),
                serving(**setting, PORT=port),
            ):
                pass
            assert file.read_text() == "unchanged"
    assert not file.exists()


@pytest.mark.django_db(transaction=True)
def test_the_link_of_an_email_has_the_port_that_the_kernel_has_chosen() -> None:
    """A local run prints its e-mails."""
    with (
        database("shorturl_mail") as url,
        serving(DATABASE_URL=url, WORKERS="1", PYTHONUNBUFFERED="1") as service,
    ):
        password = {"DJANGO_SUPERUSER_PASSWORD": secrets.token_hex(), "SHORTURL_LOCAL": "on"}
        account = ("--username=ann", "--email=ann@example.com")
        command = ("manage.py", "createsuperuser", "--noinput", *account)
        assert run_in(ROOT, *command, DATABASE_URL=url, **password).returncode == 0
        path = "/account/password_reset/"
        form = ask(service.url, "GET", path)
        (token,) = re.findall(r'csrfmiddlewaretoken" value="(\w+)"', form.body.decode())
        headers = {
            "Cookie": form.headers["set-cookie"].partition(";")[0],
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = f"csrfmiddlewaretoken={token}&email=ann%40example.com"
        assert ask(service.url, "POST", path, body, headers).status == HTTPStatus.FOUND
        assert service.process.stdout
        links = (line for line in service.process.stdout if "/account/reset/" in line)
        assert next(links).startswith(f"{service.url}/account/reset/")


# PORT is in use but in the rows that set it. The service listens before it connects.
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({**PRODUCTION, "PORT": "wrong"}, "PORT='wrong' is .* for example PORT=8000"),
        ({**PRODUCTION, "PORT": "0"}, "(?s:.*)Run: python manage.py collectstatic(?s:.*)"),
        ({**NOWHERE, "PORT": "0"}, "(?s:.*127.0.0.1.*)"),
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
