"""The service on tables as `manage.py distribute` leaves them, in a plain PostgreSQL."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from loadtests.harness.own_postgres import own_postgres
from project.tests.conftest import ROOT

TIMEOUT = 600  # seconds, many times what the tests take
SET_UP = """
from pathlib import Path
from django.core.management import call_command
from django.db import connection
from project import citus
citus.is_installed = lambda: True
call_command("migrate", verbosity=0)
with connection.cursor() as cursor:
    cursor.execute(Path("project/tests/citus_stand_ins.sql").read_text())
call_command("distribute")
"""
# An id is there twice, which no constraint forbids any more.
NOT_THERE = "test_another_violation_is_raised_and_not_retried"


@pytest.mark.exhaustive
def test_the_services_own_tests_on_distributed_tables() -> None:
    """With other primary keys, ids from sequences, and the indexes that this leaves."""
    with own_postgres() as postgres:
        with closing(postgres.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("CREATE DATABASE test_shorturl")
        run(
            postgres.url.replace("/shorturl?", "/test_shorturl?"),
            "manage.py",
            "shell",
            "-c",
            SET_UP,
        )
        passed = run(
            postgres.url, "-m", "pytest", "-q", "--reuse-db", "shorturl/tests",
            "--ignore=shorturl/tests/browser", "-k", f"not {NOT_THERE}",
        )  # fmt: skip
    assert " passed" in passed


def run(url: str, *arguments: str) -> str:
    """Run a command on this database; return what it printed."""
    variables = {"PATH": os.environ["PATH"], "SHORTURL_LOCAL": "on", "DATABASE_URL": url}
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout
