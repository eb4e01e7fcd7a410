"""Copies of the project that start without the checkout's .env; databases; requests."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from urllib.parse import urlsplit

import pytest
from django.db import connection

Load = Callable[..., dict[str, Any]]
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 300  # seconds, many times the longest run on an idle machine

# Values for the empty variables of `.env.example`. Nothing connects to this database.
FILLED_IN = {
    "SECRET_KEY": "0123456789 0123456789 0123456789 0123456789 0123456789",
    "ALLOWED_HOSTS": "example.com",
    "DATABASE_URL": "postgres:///unused",
    "POSTGRES_PASSWORD": "unused",
}
PRODUCTION = {name: value for name, value in FILLED_IN.items() if name != "POSTGRES_PASSWORD"}

# Nothing listens on this port.
NOWHERE = {"DATABASE_URL": "postgres://user:secret@127.0.0.1:1/shorturl", "SHORTURL_LOCAL": "on"}
GUNICORN = ("-m", "gunicorn", "-c", "project/gunicorn.py")

IGNORED = shutil.ignore_patterns("__pycache__", "tests")  # as in .dockerignore


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that reads a copy of settings.py with the given variables alone."""
    path = tmp_path / "project" / "settings.py"
    path.parent.mkdir()
    shutil.copy(ROOT / "project" / "settings.py", path)

    def load(**variables: str) -> dict[str, Any]:
        with mock.patch.dict(os.environ, variables, clear=True):
            return runpy.run_path(str(path))

    return load


@pytest.fixture(scope="session")
def project_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with manage.py and the packages of a local run, and no .env."""
    copy = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "manage.py", copy)
    for name in ("project", "shorturl", "lab"):
        shutil.copytree(ROOT / name, copy / name, ignore=IGNORED)
    return copy


def run_in(
    directory: Path, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run Python in `directory` with this environment alone; return its result."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=directory,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


@contextmanager
def database(name: str, options: str = "") -> Iterator[str]:
    """Make an empty database beside the tests' own, and yield its address."""
    execute(f"CREATE DATABASE {name} {options}")
    try:
        parameters = connection.get_connection_params()
        user = parameters.get("user") or os.environ.get("USER", "")
        password = f":{parameters['password']}" if parameters.get("password") else ""
        host, port = parameters.get("host", ""), parameters.get("port") or 5432
        yield f"postgres://{user}{password}@/{name}?host={host}&port={port}"
    finally:
        execute(f"DROP DATABASE {name} WITH (FORCE)")


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


class Answer(NamedTuple):
    status: int
    headers: Any
    body: bytes


def ask(
    url: str,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Return the response to a request on a new connection; names of headers in lower case."""
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)) as connection:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        answered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, answered, response.read())


def list_image_sources() -> list[str]:
    """Return the files and directories that the Dockerfile copies from the project."""
    stage = (ROOT / "Dockerfile").read_text().split(" AS build\n")[1].split("\nFROM")[0]
    return re.findall(r"^COPY (\S+) \S+$", stage, re.MULTILINE)


@pytest.fixture(scope="session")
def production_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the contents of the image, with .env.example filled in as .env."""
    copy = tmp_path_factory.mktemp("production")
    for source in list_image_sources():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, copy / source, ignore=IGNORED)
        else:
            shutil.copy(ROOT / source, copy)
    text = (ROOT / ".env.example").read_text()
    for name, value in FILLED_IN.items():
        assert f"\n{name}=\n" in text
        text = text.replace(f"\n{name}=\n", f"\n{name}={value}\n")
    # A production has no brotli. Locust brings it, and WhiteNoise would compress for half a minute.
    (copy / "brotli.py").write_text("raise ImportError")
    (copy / ".env").write_text(text)
    ended = run_in(copy, "manage.py", "collectstatic", "--noinput")
    assert ended.returncode == 0, ended.stderr
    return copy
