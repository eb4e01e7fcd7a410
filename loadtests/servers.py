"""For measurements: the service on a free port, a PostgreSQL that can be stopped, and wrk."""

import os
import re
import resource
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
from embedded_postgres.server import Server

ROOT = Path(__file__).resolve().parents[1]
READY = re.compile(r"The URL shortener is at (http://[^/]+)/")
DATABASE = "shorturl"
# For a load that must not be refused even on a busy machine.
NO_REFUSALS = {"QUEUE_TIMEOUT_MS": "20000", "PGOPTIONS": "-c lock_timeout=10s"}
START_TIMEOUT = 90  # seconds; a first start migrates the database
STOP_TIMEOUT = 30  # seconds
POLL_INTERVAL = 0.02  # seconds
ANSWER_TIMEOUT = 30  # seconds that wrk waits for an answer


class RunningService(NamedTuple):
    """The service: its address, and the process of the gunicorn master."""

    url: str
    process: "subprocess.Popen[str]"

    @property
    def workers(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children())


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[RunningService]:
    """Run the service for the block, with these arguments of gunicorn and these variables.

    Raises ChildProcessError, with the last line of the log, when the service does not start.
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
                last_line = log.read().strip().rpartition("\n")[2]
                raise ChildProcessError(f"the service does not start: {last_line}")
            yield RunningService(url, process)
        finally:
            stop(process)


def wait_for_address(process: "subprocess.Popen[str]") -> str:
    """Return the address that gunicorn prints, or "" if gunicorn ends before."""
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


def wait_until(condition: Callable[[], object], problem: str, timeout: float) -> None:
    """Wait until the condition holds; raise TimeoutError with `problem`."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{problem} within {timeout:.0f} s")
        time.sleep(POLL_INTERVAL)


class WrkResult(NamedTuple):
    """What the clients of wrk have seen."""

    acknowledged: int  # requests
    refused: int
    sent: int  # at most: each client may have a request under way at the end
    longest: float  # seconds that an answer took
    processor_seconds: float  # of wrk itself


def run_wrk(url: str, clients: int, seconds: int, *options: str) -> WrkResult:
    """Send requests without pause for some seconds."""
    limits = [f"-c{clients}", f"-d{seconds}s", f"--timeout={ANSWER_TIMEOUT}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.check_output(["wrk", *limits, *options, url], text=True)  # noqa: S603, S607
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    def count(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, output)))

    answered = count(r"(\d+) requests in")
    refused = count(r"Non-2xx or 3xx responses: (\d+)")
    failed = count(r"(?:connect|read|write|timeout) (\d+)")
    longest, unit = re.findall(r"Latency +\S+ +\S+ +([\d.]+)(us|ms|s|m)", output)[0]
    return WrkResult(
        acknowledged=answered - refused,
        refused=refused,
        sent=answered + failed + clients,
        longest=float(longest) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[unit],
        processor_seconds=sum(after[:2]) - sum(before[:2]),
    )


class OwnPostgres:
    """A PostgreSQL in `directory`, which runs after start(). Use own_postgres() to get it."""

    def __init__(self, directory: Path) -> None:
        self._alive_lock = directory / "alive.lock"  # each process of PostgreSQL holds it
        self.server = Server(directory)
        self.start()

    def start(self) -> None:
        """Start PostgreSQL, and wait until it accepts connections; raise OperationalError."""
        self.running = self.server.use(DATABASE, again=True)  # it may have crashed

    def crash(self) -> None:
        """Stop PostgreSQL as `pg_ctl stop -m immediate` does, and wait for its processes."""
        os.kill(self.running.pid, signal.SIGQUIT)
        wait_until(lambda: not locks.is_taken(self._alive_lock), "PostgreSQL runs on", STOP_TIMEOUT)

    @property
    def address(self) -> dict[str, Any]:
        """The driver's parameters, which a restart does not change."""
        host = str(self.running.socket_directory)
        return {"host": host, "port": self.running.port, "user": postgres.USER, "dbname": DATABASE}

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgres://{postgres.USER}@/{database}?host={self.address['host']}"

    def connect(self, database: str = DATABASE) -> Any:
        """Return a connection of the driver; raise the driver's Error while PostgreSQL is down."""
        return DatabaseWrapper.Database.connect(**{**self.address, "dbname": database})

    def processes(self) -> list[psutil.Process]:
        """Return the processes of PostgreSQL, beginning with the postmaster."""
        postmaster = psutil.Process(self.running.pid)
        return [postmaster, *postmaster.children(recursive=True)]


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Start a PostgreSQL in a temporary directory, with an empty database; remove it afterwards."""
    # For a second, the process that watches the server may still write into the directory.
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)  # root runs PostgreSQL as another account, which needs access
        own = OwnPostgres(Path(name))
        try:
            yield own
        finally:
            own.server.leave()  # stops it, as nobody else uses it
