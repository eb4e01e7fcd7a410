"""Servers for a measurement: the service on a free port, and a PostgreSQL that can be stopped.

Both serve on the loopback or on a Unix socket, and are removed afterwards.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from django.db.backends.postgresql.base import DatabaseWrapper

from embedded_postgres import locks, postgres

ROOT = Path(__file__).resolve().parents[1]
READY = re.compile(r"The URL shortener is at (http://[^/]+)/")
DATABASE = "shorturl"
# For a load that must not be refused even on a busy machine.
NO_REFUSALS = {"QUEUE_TIMEOUT_MS": "20000", "PGOPTIONS": "-c lock_timeout=10s"}
# Seconds. A first start creates the embedded PostgreSQL and migrates it.
START_TIMEOUT, STOP_TIMEOUT, POLL_INTERVAL = 90, 30, 0.02


class NotServed(Exception):
    """The service does not start. The message is one line."""


class RunningService(NamedTuple):
    """The service: its address, and the process of the gunicorn master."""

    url: str
    process: "subprocess.Popen[str]"

    @property
    def workers(self) -> list[psutil.Process]:
        workers: list[psutil.Process] = psutil.Process(self.process.pid).children()
        return workers


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[RunningService]:
    """Serve as a local run with the variables of `environment`, for the length of the block.

    `arguments` are gunicorn's, after the configuration. Raises NotServed, with the last line of the
    log, when the service does not start.
    """
    local = {"SHORTURL_LOCAL": "on", "HOST": "127.0.0.1", "PORT": "0"}  # gunicorn prints its port
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
            [sys.executable, "-m", "gunicorn", "-c", "project/gunicorn.py", *arguments],
            cwd=ROOT,
            env={**os.environ, **local, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the caller alone, which ends its clients first
        ) as process,
    ):
        try:
            url = wait_for_address(process)
            if not url:
                log.seek(0)
                last = (log.read().strip().splitlines() or ["no reason was printed"])[-1]
                raise NotServed(f"the service does not start: {last}")
            yield RunningService(url, process)
        finally:
            stop(process)


def wait_for_address(process: "subprocess.Popen[str]") -> str:
    """Return the address that gunicorn prints; empty if gunicorn ends instead."""
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    try:
        matches = (READY.match(line) for line in process.stdout or ())
        return next((match[1] for match in matches if match), "")
    finally:
        timer.cancel()


def stop(process: "subprocess.Popen[Any]") -> None:
    """Terminate a process; kill it if it does not end within STOP_TIMEOUT."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()


def wait_until(condition: Callable[[], object], problem: str, timeout: float) -> float:
    """Wait until `condition`; return the seconds. Raise TimeoutError with `problem`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + timeout:
            raise TimeoutError(f"{problem} within {timeout:.0f} s")
        time.sleep(POLL_INTERVAL)
    return time.monotonic() - began


class OwnPostgres:
    """The server in `directory`; own_postgres() makes it. It is down until start()."""

    def __init__(self, directory: Path) -> None:
        self.data, self.log = directory / "data", directory / "server.log"
        self._alive = directory / "alive.lock"  # each of PostgreSQL's processes holds it

    def start(self) -> None:
        """Start it, and return when it accepts connections; raise OSError or TimeoutError."""
        alive = locks.open_lock(self._alive)
        try:
            locks.take(alive)
            with self.log.open("ab") as log:
                postgres.start(self.data, log=log, lock=alive)
        finally:
            os.close(alive)
        wait_until(lambda: postgres.ready(self.data), "PostgreSQL did not start", START_TIMEOUT)

    def crash(self) -> None:
        """Stop it as `pg_ctl stop -m immediate` does; return when all of it has ended."""
        if (running := postgres.read_pid_file(self.data)) and locks.is_taken(self._alive):
            os.kill(running.pid, signal.SIGQUIT)
        wait_until(lambda: not locks.is_taken(self._alive), "PostgreSQL runs on", START_TIMEOUT)

    @property
    def address(self) -> dict[str, Any]:
        """The driver's parameters; raises ConnectionError while it is down."""
        running = postgres.ready(self.data)
        if running is None:
            raise ConnectionError("PostgreSQL is not running")
        host = str(running.socket_directory)
        return {"host": host, "port": running.port, "user": postgres.USER, "dbname": DATABASE}

    @property
    def url(self) -> str:
        """Its DATABASE_URL, which a restart does not change."""
        return f"postgres://{postgres.USER}@/{DATABASE}?host={self.address['host']}"

    def connect(self) -> Any:
        """Return a connection of the driver; raise its Error, or ConnectionError."""
        return DatabaseWrapper.Database.connect(**self.address)

    def processes(self) -> list[psutil.Process]:
        """Return its processes, beginning with the postmaster."""
        running = postgres.read_pid_file(self.data)
        postmaster = psutil.Process(running.pid if running else None)
        return [postmaster, *postmaster.children(recursive=True)]


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Start a server in a temporary directory, with an empty database; remove it after the block.

    Raises ImproperlyConfigured without the package with PostgreSQL, and what start() does.
    """
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        Path(name).chmod(0o711)  # root runs PostgreSQL as another account, which needs access
        server = OwnPostgres(Path(name))
        try:
            server.start()
            running = postgres.ready(server.data)
            assert running is not None
            postgres.create_database(DATABASE, running=running)
            yield server
        finally:
            server.crash()
            postgres.remove_leftovers(server.data)
