"""What the command says when it cannot measure, and which database it measures in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bench import database_url

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 60  # seconds


def bench(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.service", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def test_without_a_database() -> None:
    ended = bench(DATABASE_URL="postgres://nobody@127.0.0.1:1/none")
    assert ended.returncode == 2
    assert ended.stderr.startswith("bench: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.django_db
def test_the_service_uses_the_database_in_use() -> None:
    """What the test run works in is a database that no DATABASE_URL has named."""
    script = (
        "import django; django.setup();"
        "from django.db import connection as c; c.ensure_connection();"
        "print(c.connection.info.dbname)"
    )
    environment = {"SHORTURL_LOCAL": "on", "DJANGO_SETTINGS_MODULE": "project.settings"}
    printed = subprocess.check_output(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment, "DATABASE_URL": database_url()},
        text=True,
        timeout=TIMEOUT,
    )
    from django.db import connection

    assert printed.strip() == connection.settings_dict["NAME"]
