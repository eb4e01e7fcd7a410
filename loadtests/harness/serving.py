"""Start the service on a free port of the loopback, or a command, and stop it afterwards."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"The URL shortener is at (http://[^/]+)/")
# For a load that must not be refused even on a busy machine, as the outcome of a refused request is
# unknown.
NO_REFUSALS = {"QUEUE_TIMEOUT_MS": "20000", "PGOPTIONS": "-c lock_timeout=10s"}
# Seconds. A first start creates the embedded PostgreSQL and migrates it. gunicorn gives requests in
# flight a little less than STOP_TIMEOUT.
START_TIMEOUT, STOP_TIMEOUT, POLL_INTERVAL = 90, 30, 0.02


class NotServed(Exception):
    """The service does not start. The message is one line."""


class RunningService(NamedTuple):
    """The service: its address, and the process of the gunicorn master."""

    url: str
    process: "subprocess.Popen[str]"


@contextmanager
def serving(
    directory: Path = ROOT, /, *arguments: str, **environment: str
) -> Iterator[RunningService]:
    """Serve as a local run with the variables of `environment`, for the length of the block.

    `arguments` are gunicorn's, after the configuration. `directory` is another checkout, which is
    served with its virtualenv if it has one. Raises NotServed, with the last line of its log, when
    the service does not start.
    """
    # gunicorn prints its port. A port that is free here could be in use when it starts.
    local = {"SHORTURL_LOCAL": "on", "HOST": "127.0.0.1", "PORT": "0"}
    own = directory / ".venv" / "bin" / "python"
    python = str(own) if directory != ROOT and own.exists() else sys.executable
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
            [python, "-m", "gunicorn", "-c", "project/gunicorn.py", *arguments],
            cwd=directory,
            env={**os.environ, **local, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C reaches the caller alone, which ends its clients before the service.
            start_new_session=True,
        ) as process,
    ):
        try:
            url = address(process)
            if not url:
                log.seek(0)
                last = (log.read().strip().splitlines() or ["no reason was printed"])[-1]
                raise NotServed(f"the service does not start: {last}")
            yield RunningService(url, process)
        finally:
            stop(process)


@contextmanager
def manage(command: str, database_url: str, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a command of manage.py on a database; kill it at the end of the block."""
    variables = {**os.environ, "SHORTURL_LOCAL": "on", "DATABASE_URL": database_url}
    with subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
        [sys.executable, "manage.py", command, *arguments],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def address(process: "subprocess.Popen[str]") -> str:
    """Wait until gunicorn prints its address, and return it; empty if gunicorn ends instead."""
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    try:
        told = (READY.match(line) for line in process.stdout or ())
        return next((match[1] for match in told if match), "")
    finally:
        timer.cancel()


def stop(process: "subprocess.Popen[str]") -> None:
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
