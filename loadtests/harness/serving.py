"""The service, started for one measurement on a free port of the loopback, and stopped after it."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
READY = "The URL shortener is at "
START_TIMEOUT = 90  # seconds: a first start makes the embedded PostgreSQL and migrates it
STOP_TIMEOUT = 30  # seconds: a little longer than gunicorn gives the requests in flight


class NotServed(Exception):
    """The service does not start. The message is one line for people."""


class Service(NamedTuple):
    """The running service: its address, and the process of the gunicorn master."""

    url: str
    process: "subprocess.Popen[str]"


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(**environment: str) -> Iterator[Service]:
    """Serve with the variables of `environment`, as a local run, for the length of the block.

    Raises NotServed, with the last line of its log, when the service does not start.
    """
    variables = {
        **os.environ,
        "SHORTURL_LOCAL": "on",
        "HOST": "127.0.0.1",
        "PORT": str(free_port()),
        **environment,
    }
    command = [sys.executable, "-m", "gunicorn", "-c", "project/gunicorn.py"]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
            command,
            cwd=ROOT,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C is for the caller, who ends its clients first and then this.
            start_new_session=True,
        ) as process,
    ):
        try:
            if not is_ready(process):
                log.seek(0)
                last = (log.read().strip().splitlines() or ["it does not say why"])[-1]
                raise NotServed(f"the service does not start: {last}")
            yield Service(f"http://127.0.0.1:{variables['PORT']}", process)
        finally:
            stop(process)


def is_ready(process: "subprocess.Popen[str]") -> bool:
    """Wait until gunicorn says that it serves; return False when it ends instead."""
    timer = threading.Timer(START_TIMEOUT, process.kill)
    timer.start()
    try:
        return any(line.startswith(READY) for line in process.stdout or ())
    finally:
        timer.cancel()


def stop(process: "subprocess.Popen[Any]") -> None:
    """Let the requests in flight finish, and stop the service, or who asks it."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
