"""Shared by the tests: a database for services, and functions that run a script."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.serving import NO_REFUSALS, ROOT

LAB = {"SHORTURL_LAB": "on", **NO_REFUSALS}
TIMEOUT = 240  # seconds, many times the longest run on an idle machine


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """The URL of a database that only these tests use."""
    with own_postgres() as postgres:
        yield postgres.url


def command(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "locust", "-f", f"loadtests/{script}.py", *arguments]


def ended(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )


def locust(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a script headless with a time limit; return its result."""
    return ended(*command(script, "--headless", "--only-summary", *arguments))


def result(reports: Path, script: str, strategy: str) -> Any:
    """Return the result that a script has written."""
    return json.loads((reports / f"{script}-{strategy}.json").read_text())
