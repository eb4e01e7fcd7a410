"""Real processes that start, share, kill and stop the server."""

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest

from embedded_postgres import locks
from tests.conftest import TIMEOUT, Embedded

KEEP = "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 42 AS answer"


def test_two_processes_start_it_at_the_same_moment(fresh: Embedded) -> None:
    """Both create the directory, the server and the database, after an initdb that was killed."""
    draft = fresh.directory / "data.new"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    both = [fresh.client(), fresh.client()]
    for client in both:
        client.tell("SELECT pg_postmaster_start_time()::text")
    assert both[0].answer() == both[1].answer()
    assert not draft.exists()
    for client in both:
        client.leave()
    assert not fresh.is_alive()


def test_a_long_wait_for_another_process_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "SILENT_SECONDS", 0)
    path = tmp_path / "start.lock"
    descriptor = locks.open_lock(path)
    assert locks.take(descriptor)
    # Without a time limit the wait ends when this timer releases the lock, and the test fails.
    release = Timer(TIMEOUT, os.close, [descriptor])
    release.start()
    with pytest.raises(TimeoutError), locks.exclusive(path, timeout=1):
        pass
    release.cancel()
    os.close(descriptor)
    (message,) = caplog.messages
    assert message.endswith(f"PostgreSQL: waiting up to 1 s until it releases {path}")


def test_one_process_starts_while_the_last_one_stops_it(embedded: Embedded) -> None:
    """Process 1 is the last one and ends, while process 2 makes its first connection."""
    last = embedded.client()
    last.ask("SELECT 1")
    for _ in range(3):
        following = embedded.client()
        following.tell("SELECT 1")
        last.leave()
        assert following.answer() == [[1]]
        assert embedded.is_alive()
        last = following
    last.leave()
    assert not embedded.is_alive()


def test_a_process_survives_the_killed_server(embedded: Embedded) -> None:
    """An open connection to the killed server fails, and the next connection starts the server."""
    client, other = embedded.client(), embedded.client()
    client.ask(KEEP)
    place = other.ask("SELECT current_database(), current_setting('data_directory')")
    assert place == [["app", str(embedded.data)]]
    embedded.kill_server()
    log = embedded.directory / "server.log"
    log_of_killed = log.read_text()
    assert "connection" in client.ask("SELECT answer FROM kept")
    assert client.ask("SELECT answer FROM kept") == [[42]]
    assert log.with_suffix(".log.1").read_text() == log_of_killed  # it may say why
    client.leave()
    assert embedded.is_alive(), "the other process has not left"
    assert "connection" in other.ask("SELECT 1")
    assert other.ask("SELECT answer FROM kept") == [[42]]
    other.leave()
    assert not embedded.is_alive()


def test_everything_killed_at_once(embedded: Embedded) -> None:
    """Committed data survives when a client, and then the whole server, is killed."""
    first, client = embedded.client(), embedded.client()
    first.ask(KEEP)
    first.kill()
    client.ask("SELECT answer FROM kept")
    backends = [pid for (pid,) in client.ask("SELECT pid FROM pg_stat_activity")]
    postmaster = embedded.running().pid
    client.kill()
    for pid in (postmaster, *backends):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    following = embedded.client()
    assert following.ask("SELECT answer FROM kept") == [[42]]
    following.leave()
    assert not embedded.is_alive()


def test_the_last_process_is_killed(embedded: Embedded) -> None:
    """As when runserver is terminated, which kills its child, or a terminal and its group."""
    first, second = embedded.client(), embedded.client()
    first.ask("SELECT 1")
    postmaster = embedded.running().pid
    second.ask("SELECT 1")
    for client in (first, second):
        assert embedded.running().pid == postmaster
        os.killpg(client.process.pid, signal.SIGKILL)
        client.kill()
    deadline = time.monotonic() + TIMEOUT
    while embedded.is_alive():
        assert time.monotonic() < deadline, "PostgreSQL outlives its users"
        time.sleep(0.05)


def test_ctrl_c_reaches_the_process_and_not_the_server(embedded: Embedded) -> None:
    first, second = embedded.client(), embedded.client()
    first.ask("SELECT 1")  # starts the server
    backend = second.ask("SELECT pg_backend_pid()")
    os.killpg(first.process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in first.process.communicate(timeout=TIMEOUT)[1]
    assert second.ask("SELECT pg_backend_pid()") == backend
    os.killpg(second.process.pid, signal.SIGINT)
    second.process.communicate(timeout=TIMEOUT)
    assert not embedded.is_alive()


def is_pending(number: int, pid: int) -> bool:
    """Return whether a suspended process has got a signal."""
    (pending,) = re.findall(
        r"^ShdPnd:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return bool(int(pending, 16) & 1 << number - 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel is not Linux")
def test_ctrl_c_during_the_stop_leaves_no_traceback_and_no_server(embedded: Embedded) -> None:
    """PostgreSQL is suspended until the process, which stops it, has got Ctrl-C."""
    client = embedded.client()
    client.ask("SELECT 1")
    server = embedded.running().pid
    os.kill(server, signal.SIGSTOP)
    try:
        assert client.process.stdin is not None
        client.process.stdin.close()
        client.process.stdin = None
        deadline = time.monotonic() + TIMEOUT
        while not is_pending(signal.SIGINT, server):  # which stops PostgreSQL
            assert time.monotonic() < deadline, "the process does not stop the server"
            time.sleep(0.01)
        os.killpg(client.process.pid, signal.SIGINT)
    finally:
        os.kill(server, signal.SIGCONT)
    client.leave()
    assert not embedded.is_alive()


BRIEF = """
import sys
import django
django.setup()
from django.db import connection
from embedded_postgres import server
server.TIMEOUT = {0}
connection.ensure_connection()
server.TIMEOUT = 0.5
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_server_that_does_not_stop_in_time_is_named(embedded: Embedded) -> None:
    """PostgreSQL is suspended while its last process ends."""
    last = embedded.popen("-c", BRIEF.format(TIMEOUT))
    assert last.stdout is not None
    assert last.stdout.readline() == "connected\n"
    server = embedded.running().pid
    os.kill(server, signal.SIGSTOP)
    try:
        _, errors = last.communicate(timeout=TIMEOUT)
    finally:
        os.kill(server, signal.SIGCONT)
    reason = "was not stopped: it did not stop within 0.5 s"
    assert errors == f"The embedded PostgreSQL in {embedded.directory} {reason}\n"
    assert last.returncode == 0


def test_an_old_server_that_does_not_end_in_time_is_named(embedded: Embedded) -> None:
    """A process of an old server lives on, without a postmaster."""
    alive_lock = locks.open_lock(embedded.directory / "alive.lock")
    assert locks.take(alive_lock)
    try:
        errors = embedded.run("-c", BRIEF.format(0.5)).stderr
    finally:
        os.close(alive_lock)
    reason = "did not start: it was not ready, or an old one not gone, within 0.5 s"
    assert f"OperationalError: The embedded PostgreSQL in {embedded.directory} {reason}" in errors


def test_a_forked_process_is_another_user(embedded: Embedded) -> None:
    """As with gunicorn: the parent holds the server, one child ends, one outlives the parent."""
    program = """
import os, sys
from django.db import connection
from embedded_postgres import hold, postgres
hold()
read, write = os.pipe()
for child in ("comes and goes", "never connects"):
    pid = os.fork()
    if not pid and child == "comes and goes":
        connection.ensure_connection()
        sys.exit()
    if not pid:
        os.write(write, b"here")
        sys.stdin.read()  # until the test closes it
        os._exit(0)
    if child == "comes and goes":
        assert os.waitpid(pid, 0)[1] == 0
        assert postgres.ready(connection.server.data)
os.read(read, 4)
print("held", flush=True)
"""
    parent = embedded.popen("-c", program)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "held\n"
    assert parent.wait(timeout=TIMEOUT) == 0
    assert not embedded.is_alive()
    parent.communicate(timeout=TIMEOUT)
