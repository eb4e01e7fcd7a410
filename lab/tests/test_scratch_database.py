"""Scratch databases: separate from the service's, dropped at the end, and only when unused."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import OperationalError

from lab import scratch_database as module
from lab.exceptions import LabRefusal
from lab.scratch_database import (
    check_role,
    drop,
    is_free,
    kept_scratch_database,
    prefix,
    scratch_database,
    scratch_databases,
    sweep,
)
from project.docs import ROOT
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def host() -> Iterator[BaseDatabaseWrapper]:
    session = connection.copy()
    yield session
    session.close()


@pytest.fixture
def foreign() -> Iterator[str]:
    """A scratch database of another process, with no session in it."""
    name = prefix(connection.settings_dict["NAME"]) + "0" * 16
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    yield name
    drop(connection, name)


def test_it_is_separate_and_is_dropped() -> None:
    own = connection.settings_dict["NAME"]
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    with scratch_database() as name:
        assert connection.settings_dict["NAME"] == name != own
        assert not ShortUrl.objects.exists()
    assert connection.settings_dict["NAME"] == own
    assert ShortUrl.objects.get().key == "mine"
    assert scratch_databases(connection) == []


def test_another_host_keeps_one_that_is_used(host: BaseDatabaseWrapper) -> None:
    with scratch_database() as name:
        connection.close()  # so that only the lock protects it
        sweep(host)
        assert scratch_databases(host) == [name]


def test_an_unused_one_is_dropped(host: BaseDatabaseWrapper, foreign: str) -> None:
    assert is_free(connection, foreign)
    sweep(host)
    assert scratch_databases(host) == [foreign]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock_all()")
    sweep(host)
    assert scratch_databases(host) == []
    assert is_free(connection, foreign)  # the sweep has released what it took
    connection.close()  # and its lock


def test_one_where_a_killed_process_left_a_session_is_dropped(
    host: BaseDatabaseWrapper, foreign: str
) -> None:
    left = connection.copy()
    left.settings_dict["NAME"] = foreign
    left.ensure_connection()
    sweep(host)
    assert scratch_databases(host) == []
    with pytest.raises(OperationalError), left.cursor() as cursor:
        cursor.execute("SELECT 1")
    left.close()


def test_names_of_two_services_never_meet() -> None:
    long = "a" * 40
    assert len({prefix(name) for name in ("a", "a_race", long, long + "b")}) == 4
    assert len(prefix("ä" * 63)) < len(prefix("a" * 63)) <= 63 - 16


def test_a_role_that_may_not_create_databases_is_told(host: BaseDatabaseWrapper) -> None:
    with host.cursor() as cursor:
        cursor.execute("SET ROLE pg_read_all_data")
    with pytest.raises(LabRefusal, match="ALTER ROLE pg_read_all_data CREATEDB"):
        check_role(host)


@pytest.mark.exhaustive
def test_a_kept_one_is_used_again_until_a_migration_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a database, which a killed process has left, is made again."""
    name = prefix(connection.settings_dict["NAME"], "kept")

    def keeps(key: str) -> bool:
        with kept_scratch_database() as used:
            assert used == name
            _, is_new = ShortUrl.objects.get_or_create(key=key, target_url="https://a.example/")
            return not is_new

    try:
        assert [keeps("a"), keeps("a")] == [False, True]
        sweep(connection)
        monkeypatch.setattr(module, "migrations_digest", lambda: "of tomorrow")
        assert [keeps("a"), keeps("a")] == [False, True]
        with connection.cursor() as cursor:  # as if it was killed while it made the tables
            cursor.execute(f'COMMENT ON DATABASE "{name}" IS NULL')
        assert not keeps("a")
        assert not ShortUrl.objects.exists()
    finally:
        drop(connection, name)


# Explores in a scratch database beside the test's database, where no other test creates one.
PROGRAM = """
import django
django.setup()
from django.core.management import execute_from_command_line
from django.db import connection
connection.settings_dict["NAME"] = {name!r}
execute_from_command_line(["manage.py", "race", "explore", "crossed_locks"])
"""


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive), signal.SIGTERM]
)
def test_a_command_that_is_ended_drops_its_database(number: signal.Signals) -> None:
    """The list of databases shows when it is running, and that it has cleaned up."""
    name = connection.settings_dict["NAME"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not scratch_databases(connection):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert scratch_databases(connection) == []
    assert "Traceback" not in errors
    assert process.returncode in (130, 143)
