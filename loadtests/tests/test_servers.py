"""Programs that do not start, do not stop, or crash."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from django.db.backends.postgresql.base import DatabaseWrapper

from loadtests import servers
from loadtests.measuring import execute
from loadtests.servers import (
    RunningService,
    own_postgres,
    serving,
    stop,
    wait_for_address,
    wait_until,
)

SLEEP = "import time; time.sleep(60)"


def start(program: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_the_address_is_read_and_the_program_runs_on() -> None:
    address = "The URL shortener is at http://127.0.0.1:8123/"
    before = {*threading.enumerate()}
    with start(f"print('begin\\n{address}', flush=True); {SLEEP}") as process:
        assert wait_for_address(process) == "http://127.0.0.1:8123"
        for timer in {*threading.enumerate()} - before:
            timer.join(10)
            assert not timer.is_alive()
        stop(process)
        assert process.returncode == -signal.SIGTERM


def test_a_program_without_an_address_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "START_TIMEOUT", 0.1)
    with start(SLEEP) as process:
        assert wait_for_address(process) == ""
    assert process.returncode == -signal.SIGKILL


def test_a_program_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "STOP_TIMEOUT", 0.1)
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"
    with start(f"{ignore}; {SLEEP}") as process:
        assert process.stdout
        process.stdout.readline()
        stop(process)
    assert process.returncode == -signal.SIGKILL


def test_a_service_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(ChildProcessError, match=r"^the service does not start: .*DATABASE_URL"),
        serving(DATABASE_URL="nonsense"),
    ):
        pass


def test_ctrl_c_reaches_the_caller_alone(service: RunningService) -> None:
    """The caller ends its clients first, and then the service."""
    assert os.getsid(service.process.pid) == service.process.pid


def test_what_is_awaited_in_vain_is_named() -> None:
    with pytest.raises(TimeoutError, match=r"^no shop within 0 s$"):
        wait_until(lambda: False, "no shop", 0)


def test_a_crashed_postgres_keeps_its_rows_and_leaves_nothing_at_the_end() -> None:
    with own_postgres() as postgres:
        execute(postgres, "CREATE TABLE kept AS SELECT 7 AS n")
        postgres.crash()
        with pytest.raises(DatabaseWrapper.Database.OperationalError):
            postgres.connect()
        postgres.start()
        assert execute(postgres, "SELECT n FROM kept") == 7
        assert {process.name() for process in postgres.processes()} == {"postgres"}
        assert postgres.server.directory.exists()
    with pytest.raises(DatabaseWrapper.Database.OperationalError):
        postgres.connect()
    assert not postgres.server.directory.exists()
