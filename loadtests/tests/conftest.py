"""Shared by the tests: a service, and functions that run a script."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from loadtests.servers import NO_REFUSALS, ROOT, OwnPostgres, RunningService, own_postgres, serving

TIMEOUT = 240  # seconds, many times the longest run on an idle machine


@pytest.fixture(scope="session")
def postgres() -> Iterator[OwnPostgres]:
    """A PostgreSQL that only these tests use."""
    with own_postgres() as postgres:
        yield postgres


@pytest.fixture(scope="session")
def service(postgres: OwnPostgres) -> Iterator[RunningService]:
    with serving(DATABASE_URL=postgres.url, **NO_REFUSALS) as service:
        yield service


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def get_json(url: str, form: dict[str, Any] | None = None) -> Any:
    """Return the JSON at `url`, or None without an answer; a form is posted."""
    content = None if form is None else urlencode(form).encode()
    try:
        with urlopen(url, content, timeout=TIMEOUT) as response:
            return json.load(response)
    except OSError:
        return None


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python module from the project's root."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip


def run_script(script: str, host: str, file: Path, *options: str) -> Any:
    """Run a script headless; return what it writes into `file`."""
    ended = run(
        *("locust", "-f", f"loadtests/{script}.py", "--headless", "--only-summary"),
        *("--host", host, "--run-time", "2s", "--ledger-file", str(file), *options),
    )
    assert file.exists(), ended.stderr
    result = json.loads(file.read_text())
    assert ended.returncode == result["exit_code"], ended.stderr
    return result
