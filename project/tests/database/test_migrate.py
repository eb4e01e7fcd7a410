"""`manage.py migrate` in several processes, without the right, and beside other sessions."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import pre_migrate

from project.management.commands.migrate import LOCK, alone
from project.tests.conftest import run_in
from project.tests.serving.test_gunicorn import CONFIG, database

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.exhaustive
def test_two_at_once_on_an_empty_database(project_copy: Path) -> None:
    """One applies all migrations, the other waits and then finds none."""
    with database(f"shorturl_{secrets.token_hex(8)}") as url, ThreadPoolExecutor() as pool:
        where = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        both = [
            pool.submit(run_in, project_copy, "manage.py", "migrate", **where) for _ in range(2)
        ]
        ended = [each.result() for each in both]
    assert [each.returncode for each in ended] == [0, 0], ended
    assert sorted("No migrations to apply" in each.stdout for each in ended) == [False, True]


def test_a_role_without_the_right_gets_one_line(project_copy: Path) -> None:
    role = f"shorturl_{secrets.token_hex(8)}"
    with database(f"{role}_migrations") as url, connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}")
        try:
            where = {"DATABASE_URL": f"{url}&assume_role={role}", "SHORTURL_LOCAL": "on"}
            ended = run_in(project_copy, *CONFIG, PORT="0", **where)
        finally:
            cursor.execute(f"DROP ROLE {role}")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "PostgreSQL refuses: permission denied for schema public. Migrate with the role" in line


def test_a_migration_may_take_longer_than_a_statement_of_a_request() -> None:
    limits = []

    def note(**_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits.append(cursor.fetchone())

    note()
    pre_migrate.connect(note, sender=apps.get_app_config("shorturl"))
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(note, sender=apps.get_app_config("shorturl"))
    note()
    assert limits == [("10s",), ("0",), ("10s",)]


def test_a_database_of_a_former_state_is_refused_in_one_line() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("shorturl", "0022_forward_query")
    try:
        with pytest.raises(CommandError, match=r"it has shorturl\.0022_forward_query\. Export"):
            call_command("migrate", verbosity=0)
    finally:
        recorder.record_unapplied("shorturl", "0022_forward_query")


def test_a_table_in_use_is_one_line_and_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "options", f"{options['options']} -c lock_timeout=50ms")
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE exhibits_singlevisit IN ACCESS SHARE MODE")
        with pytest.raises(CommandError, match="is in use: run it again with a longer"):
            call_command("migrate", "exhibits", "zero", verbosity=0)
        cursor.execute("ROLLBACK")
    applied = MigrationRecorder(connection).applied_migrations()
    assert ("exhibits", "0001_initial") in applied


def test_the_lock_belongs_to_a_transaction_that_no_timeout_ends() -> None:
    """So PgBouncer keeps it in one session, and it does not stay behind there."""
    told = []
    with alone("default", waiting=lambda: told.append("the first")) as keeper:
        with keeper.cursor() as cursor:
            for name in ("idle_in_transaction_session", "statement", "lock"):
                cursor.execute(f"SHOW {name}_timeout")
                assert cursor.fetchone() == ("0",), name

        def waiting() -> None:
            told.append("the second")
            keeper.rollback()  # releases the lock

        with alone("default", waiting=waiting) as second:
            assert locks() == 1
            second.rollback()
            assert locks() == 0
    assert told == ["the second"]


def locks() -> int:
    """Return the number of holders of the migration lock in the tests' database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database "
            "WHERE locktype = 'advisory' AND datname = current_database() "
            "AND objid = (hashtext(%s)::bigint & x'ffffffff'::bigint)::oid",
            [LOCK],
        )
        (count,) = cursor.fetchone()
    return int(count)
