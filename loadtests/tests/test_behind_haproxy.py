"""A real HAProxy with deploy/haproxy.cfg: quotas, slow clients, and requests that count once."""

import json
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

import pytest

from loadtests.servers import NO_REFUSALS, ROOT, own_postgres, serving, wait_until
from loadtests.tests.conftest import TIMEOUT, run_script

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
LIMIT, CREATES = 7, 60  # links a day of each network, and creates sent at once
CLIENTS = ["127.0.1.1", "127.0.1.2", "127.0.2.1"]  # the first two are of one network, a /24
FORGED = [None, "127.0.9.1", "203.0.113.7, 198.51.100.2", "not an address", ""]
SETTINGS = {"SHORTURL_PUBLIC_LINKS_PER_DAY": str(LIMIT), "BEHIND_PROXY": "on"}
POST = b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SLOW = {  # clients, and what each of them sends
    "half a body": (600, POST + b"Content-Length: 60\r\n\r\n{"),
    "no reading": (200, b"GET /static/ninja/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"),
}


@contextmanager
def run_haproxy(folder: Path, machine: str, **changes: str) -> Iterator[str]:
    """Run a HAProxy before a machine, with other timeouts; yield the host and port of HAProxy.

    It listens on an inherited socket.
    """
    if not HAPROXY:
        pytest.skip("HAProxy is not installed")
    text = (ROOT / "deploy/haproxy.cfg").read_text()
    text = text.replace("server-template web- 2 web:8000", f"server web-1 {machine}")
    text = text.replace("log stdout format raw local0 notice", "")
    for name, value in changes.items():
        text = re.sub(rf"timeout {name} \w+", f"timeout {name} {value}", text)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=4096))
        number, port = listener.fileno(), listener.getsockname()[1]
        file = folder / "haproxy.cfg"
        file.write_text(text.replace("bind :8000", f"bind fd@{number}"))
        command = [HAPROXY, "-db", "-q", "-f", str(file)]
        process = stack.enter_context(subprocess.Popen(command, pass_fds=[number]))
        stack.callback(process.terminate)
        netloc = f"127.0.0.1:{port}"
        is_ready = lambda: send(netloc, "GET", "/healthz") == 200  # noqa: E731
        wait_until(is_ready, "HAProxy does not pass requests on", TIMEOUT)
        yield netloc


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The host and port of a HAProxy before a service."""
    with own_postgres() as postgres:
        settings = {"DATABASE_URL": postgres.url, **NO_REFUSALS, **SETTINGS}
        folder = tmp_path_factory.mktemp("haproxy")
        with (
            serving(**settings) as service,
            run_haproxy(folder, urlsplit(service.url).netloc) as netloc,
        ):
            yield netloc


def send(netloc: str, method: str, path: str, client: str = "127.0.0.1", **headers: str) -> int:
    """Send a request from the address `client`; return the status of the answer."""
    body = json.dumps({"target_url": "https://example.com/"}) if method == "POST" else None
    connection = HTTPConnection(netloc, timeout=30, source_address=(client, 0))
    with closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        response.read()
        return response.status


@pytest.mark.exhaustive
def test_each_network_has_its_quota_despite_forged_addresses(proxied: str) -> None:
    """All creates are sent at once, most of them with a forged X-Forwarded-For."""

    def create(number: int) -> tuple[str, int]:
        """Create a link; return the client's network and the status."""
        client = CLIENTS[number % len(CLIENTS)]
        forged = FORGED[number % len(FORGED)]
        headers = {} if forged is None else {"X-Forwarded-For": forged}
        network = client.rpartition(".")[0]
        return network, send(proxied, "POST", "/api/links", client, **headers)

    with ThreadPoolExecutor(6) as pool:
        answers = Counter(pool.map(create, range(CREATES)))
    assert answers == {
        ("127.0.1", 201): LIMIT,
        ("127.0.1", 429): CREATES * 2 // 3 - LIMIT,
        ("127.0.2", 201): LIMIT,
        ("127.0.2", 429): CREATES // 3 - LIMIT,
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize(("clients", "data"), SLOW.values(), ids=SLOW)
def test_slow_clients_stop_no_redirect(proxied: str, clients: int, data: bytes) -> None:
    host, _, port = proxied.partition(":")
    with ExitStack() as stack:
        for _ in range(clients):
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            client.sendall(data)
        statuses = {send(proxied, "GET", "/healthz") for _ in range(20)}
        statuses |= {send(proxied, "GET", "/none+") for _ in range(20)}
    assert statuses == {200, 404}


@pytest.mark.exhaustive
def test_haproxy_repeats_no_request(proxied: str, tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    result = run_script("last_use", f"http://{proxied}", file, "--strategy", "service")
    assert result["exit_code"] == 0


def test_a_request_that_a_machine_has_received_is_not_sent_again(tmp_path: Path) -> None:
    """A machine that does not answer in time may have counted the hit.

    It is told the address of the client, whatever that says itself.
    """
    names = ("X-Forwarded-For", "X-Forwarded-Proto")
    forged = dict(zip(names, ("203.0.113.7", "https"), strict=True))
    received: list[list[list[str] | None]] = []
    is_over = Event()

    class Machine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/key":
                received.append([self.headers.get_all(name) for name in names])
                is_over.wait(TIMEOUT)
                return  # without an answer
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Machine) as machine:
        Thread(target=machine.serve_forever).start()
        try:
            address = f"127.0.0.1:{machine.server_port}"
            with run_haproxy(tmp_path, address, server="300ms") as netloc:
                assert send(netloc, "GET", "/key", **forged) == 504
                assert received == [[["127.0.0.1"], ["http"]]]
        finally:
            is_over.set()
            machine.shutdown()
