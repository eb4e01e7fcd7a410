"""The scripts in real Locust processes against a real gunicorn, and their exit codes.

Locust is never imported here: it would patch this very process.
"""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.serving import ROOT, RunningService, serving
from loadtests.tests.conftest import LAB, TIMEOUT, command, ended, locust, result


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[RunningService]:
    with serving(DATABASE_URL=database_url, WORKERS="2", THREADS="4", **LAB) as service:
        yield service


@pytest.fixture(scope="module")
def host(service: RunningService) -> str:
    return service.url


def workers(service: RunningService) -> set[int]:
    return {child.pid for child in psutil.Process(service.process.pid).children()}


def run(host: str, tmp_path: Path, script: str, strategy: str, *arguments: str) -> Any:
    """Run a script for a second; return its result, which has to be as expected."""
    named = [] if strategy == "service" else ["--strategy", strategy]
    asked = ["--host", host, "--run-time", "1s", "--reports", str(tmp_path), *named, *arguments]
    told = locust(script, *asked)
    assert told.returncode == 0, told.stdout + told.stderr
    *_, last = re.split(r"\n\n(?! )", told.stdout)  # the result comes after Locust's tables
    assert last.lstrip().startswith(f"{script} {strategy}: ")
    return result(tmp_path, script, strategy)


def two_processes() -> list[str]:
    """Return the options, with a free port: workers of another run would join this master."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    return ["--processes", "2", "--master-bind-port", port, "--master-port", port]


HARM = ("lost", "doubled", "stolen", "missing", "undone", "failed", "unknown")


def harm(found: Any) -> dict[str, int]:
    """Return the counts that are not zero."""
    return {name: found[name] for name in HARM if found[name]}


@pytest.mark.exhaustive
def test_a_crash_between_two_transactions_loses_visits_and_within_one_none(
    service: RunningService, tmp_path: Path
) -> None:
    crash = "--kill-worker-of", str(service.process.pid), "--kills", "5", "--run-time", "2s"
    found = run(service.url, tmp_path, "same_hour", "second_transaction", *crash)
    assert found["lost"] == found["missing"] > 0
    before = workers(service)
    found = run(service.url, tmp_path, "same_hour", "combined", *crash)
    # A worker may have answered all its requests before the kill, so that nothing is unknown.
    assert {**harm(found), "unknown": 0} == {"unknown": 0}
    assert workers(service) != before, "none was killed"


@pytest.mark.exhaustive
def test_a_right_strategy_loses_no_hit_with_several_workers(host: str, tmp_path: Path) -> None:
    """A master and two workers, whose ledgers are merged."""
    # The users of other Locust processes start late, on a busy machine after a second.
    longer = [*two_processes(), "--run-time", "4s"]
    found = run(host, tmp_path, "lost_update", "update_returning", *longer)
    assert harm(found) == {}
    assert found["requests"] == found["acknowledged"] > 16  # users
    assert found["edits"] > 0


def test_the_service_itself(host: str, tmp_path: Path) -> None:
    found = run(host, tmp_path, "hot_and_cold", "service")
    assert harm(found) == {}
    assert found["acknowledged"] > 16


@pytest.mark.exhaustive
def test_the_ledger_of_a_killed_worker_is_lost(host: str, tmp_path: Path) -> None:
    asked = ["--host", host, "--reports", str(tmp_path), "--run-time", "6s"]
    asked += [*two_processes(), "--strategy", "update_returning", "--headless", "--only-summary"]
    with subprocess.Popen(
        command("lost_update", *asked),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr or ():
            # Locust prints the second line if a worker reports late.
            if "All users spawned" in line or "Spawning is complete" in line:
                psutil.Process(process.pid).children()[0].kill()
                break
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    found = result(tmp_path, "lost_update", "update_returning")
    assert found["reason"] == "the ledgers of 1 workers are lost"


def listening(pid: int) -> Iterator[int]:
    for one in psutil.Process(pid).net_connections("inet"):
        if one.status == psutil.CONN_LISTEN:
            yield one.laddr.port


def live(port: int) -> dict[str, str]:
    """Return the rows of the tab, by name."""
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/stats/requests", timeout=TIMEOUT
    ) as response:
        (extended,) = json.load(response)["extended_stats"]
    assert extended["key"] == "ledger"
    return {row["what"]: row["value"] for row in extended["data"] if row["what"]}


def test_a_taken_port_of_the_web_ui_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = ended(*command("lost_update", "--web-port", f"{port}", "--loglevel", "ERROR"))
    assert told.returncode == 2
    (line,) = told.stderr.splitlines()
    assert re.match(f"lost_update: --web-port {port}: Address already in use.*: choose", line)


@pytest.mark.exhaustive
def test_the_web_ui_has_a_live_ledger_and_ctrl_c_leaves_nothing_behind(
    host: str, tmp_path: Path
) -> None:
    """The tab shows the losses during the run, which is then interrupted."""
    asked = ["--host", host, "--strategy", "naive", "--reports", str(tmp_path)]
    asked += ["--autostart", "--web-port", "0", "--run-time", "60s"]
    with subprocess.Popen(
        command("lost_update", *asked),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            deadline, lost = time.monotonic() + TIMEOUT, "0 of 0"
            while lost.startswith("0 "):
                assert time.monotonic() < deadline, lost
                port = next(listening(process.pid), None)
                if port is None:  # it has not started yet
                    continue
                rows = live(port)
                lost = rows.get("hits lost", lost)
            assert rows["outcome"] == "still running"
            assert re.match(r"Two redirects of \S+ made the counter \d+: GET ", rows["proof"])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=TIMEOUT) as response:
                page = response.read().decode()
            assert '"extended_tabs": [{"key": "ledger", "title": "Ledger"}]' in page
        finally:
            process.send_signal(signal.SIGINT)
            try:
                printed, _ = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()  # otherwise the end of the block waits for ever
                raise
    assert "lost_update naive: wrong, and the invariant was violated" in printed
    space = re.search(r"lab-\w{5}", printed)
    assert space
    with pytest.raises(LabError, match="There is no key space"):
        [*Lab(host).links(space[0])]


ASK_TWICE = """
import sys
import loadtests.harness.users
from geventhttpclient import HTTPClient

client = HTTPClient("127.0.0.1", int(sys.argv[1]))
client.get("/first").read()
try:
    client.get("/second")
except Exception as error:
    print(type(error).__name__)
"""


def test_no_request_is_sent_twice() -> None:
    """By default the HTTP client repeats a GET, and here a GET counts a hit.

    The server answers the first request, and reads every later one and hangs up.
    """
    asked = []

    class OneAnswer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            if len(asked) == 1:
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
            self.close_connection = len(asked) > 1

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), OneAnswer) as server:
        Thread(target=server.serve_forever).start()
        try:
            printed = ended(sys.executable, "-c", ASK_TWICE, str(server.server_port)).stdout
        finally:
            server.shutdown()
    assert (printed, asked) == ("HTTPConnectionClosed\n", ["/first", "/second"])
