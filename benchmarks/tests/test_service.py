"""The command, and what it assumes of the service."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import service, wrk
from benchmarks.bench import database_url
from benchmarks.one_line import application

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 60  # seconds


def test_the_application_of_one_line_redirects() -> None:
    said: list[str] = []
    assert application({}, lambda status, headers: said.append(status)) == []
    assert said == ["302 Found"]


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


def test_without_wrk() -> None:
    ended = bench(PATH="")
    assert ended.returncode == 2
    assert ended.stderr == (
        "bench: wrk is not installed: apt-get install wrk (or brew install wrk)\n"
    )


def test_a_baseline_that_is_none() -> None:
    ended = bench("--baseline", "benchmarks")
    assert ended.returncode == 2
    assert "'benchmarks' is no checkout: it has no project/gunicorn.py" in ended.stderr


def test_too_many_links(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4_999_999_999))
    monkeypatch.setattr(sys, "argv", ["bench"])
    with pytest.raises(SystemExit):
        service.arguments()
    assert "10,000,000 links need 5,000,000,000 bytes of disk" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["bench", "--links", "1000000"])
    assert service.arguments().links == 1_000_000


def test_without_a_database() -> None:
    ended = bench(DATABASE_URL="postgres://nobody@127.0.0.1:1/none")
    assert ended.returncode == 2
    assert ended.stderr.startswith("bench: ")
    assert ended.stderr.count("\n") == 1


def test_a_program_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(_: object) -> int:
        raise subprocess.TimeoutExpired(["/usr/bin/wrk", "--threads=1"], 31)

    monkeypatch.setattr(service, "measure", measure)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # it is for a process of its own
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.setattr(wrk, "find", lambda: "wrk")
    assert service.main() == 2
    assert capsys.readouterr().err == "bench: wrk did not end within 31 seconds\n"


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
