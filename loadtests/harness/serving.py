"""The service, started for one measurement on a free port of the loopback, and stopped after it."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"The URL shortener is at (http://[^/]+)/")
START_TIMEOUT = 90  # seconds: a first start makes the embedded PostgreSQL and migrates it
# For a load that must not be refused even on a busy machine: of a refused request nobody knows what
# became of it.
NO_REFUSALS = {"QUEUE_TIMEOUT_MS": "20000", "DATABASE_LOCK_TIMEOUT": "10"}
STOP_TIMEOUT = 30  # seconds: a little longer than gunicorn gives the requests in flight


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
    """Serve with the variables of `environment`, as a local run, for the length of the block.

    `arguments` are gunicorn's, after the configuration; `directory` is another checkout, which is
    served with its own virtualenv if it has one.

    Raises NotServed, with the last line of its log, when the service does not start.
    """
    variables = {
        **os.environ,
        "SHORTURL_LOCAL": "on",
        "HOST": "127.0.0.1",
        "PORT": "0",  # gunicorn says which one it got: a port probed here may be taken by then
        **environment,
    }
    own = directory / ".venv" / "bin" / "python"
    python = str(own) if directory != ROOT and own.exists() else sys.executable
    command = [python, "-m", "gunicorn", "-c", "project/gunicorn.py", *arguments]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
            command,
            cwd=directory,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C reaches the caller alone, which ends its clients first and then this.
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


def address(process: "subprocess.Popen[str]") -> str:
    """Wait until gunicorn says where it serves, and return that; empty when it ends instead."""
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    try:
        told = (READY.match(line) for line in process.stdout or ())
        return next((match[1] for match in told if match), "")
    finally:
        timer.cancel()


def stop(process: "subprocess.Popen[Any]") -> None:
    """Terminate a process, which may finish its requests in flight; kill it when it does not."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
