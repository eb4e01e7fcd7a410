"""`manage.py migrate` when more than one process runs it, or one that may not."""

import os
import re
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import pre_migrate

from loadtests.harness.serving import address
from project.management.commands.migrate import LOCK, alone
from project.tests.conftest import run_in
from project.tests.test_gunicorn import CONFIG, database
from shorturl.models import PartialCount, ShortUrl, VisitCount
from shorturl.recording_visits import upsert
from shorturl.visits import Visit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.exhaustive
def test_two_at_once_on_an_empty_database(project_copy: Path) -> None:
    """One applies all migrations, the other waits and then finds none."""
    with database("shorturl_two_migrations") as url, ThreadPoolExecutor() as pool:
        where = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        both = [
            pool.submit(run_in, project_copy, "manage.py", "migrate", **where) for _ in range(2)
        ]
        ended = [each.result() for each in both]
    assert [each.returncode for each in ended] == [0, 0], ended
    assert sorted("No migrations to apply" in each.stdout for each in ended) == [False, True]


@pytest.mark.parametrize(
    ("command", "code"),
    [("token list", 1), ("export_links - --format csv", 2)],
)
def test_a_command_before_it_is_told_to_migrate(
    project_copy: Path, command: str, code: int
) -> None:
    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        where = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        ended = run_in(project_copy, "manage.py", *command.split(), **where)
    assert ended.returncode == code
    (line,) = ended.stderr.splitlines()
    told = (
        r"The database: relation .* does not exist\. Apply the migrations first: manage\.py migrate"
    )
    assert re.search(told, line, re.IGNORECASE)


def test_a_service_that_starts_before_it_says_so(production_copy: Path) -> None:
    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        where = {"PATH": os.environ["PATH"], "DATABASE_URL": url, "PORT": "0"}
        command = [sys.executable, *CONFIG]
        with subprocess.Popen(
            command, cwd=production_copy, env=where, stdout=PIPE, stderr=PIPE, text=True
        ) as process:
            started = address(process)
            process.terminate()
            _, said = process.communicate()
    assert started
    assert "Migrations are not applied: contenttypes.0001_initial" in said
    assert "Run manage.py migrate." in said


def test_a_role_that_may_not_is_one_line(project_copy: Path) -> None:
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


def test_what_is_made_beside_the_traffic_can_be_made_again() -> None:
    """An attempt that was interrupted leaves its index behind, as the tests' database has them."""
    loader = MigrationLoader(connection)
    ours = [key for key in loader.graph.nodes if key[0] == "shorturl"]
    beside = [key for key in ours if not loader.graph.nodes[key].atomic]
    assert beside
    for key in beside:
        with connection.schema_editor(atomic=False) as editor:
            loader.graph.nodes[key].apply(loader.project_state(key, at_end=False), editor)


COLUMN = """
    SELECT atttypid::regtype::text, atttypmod, attcollation, attnotnull FROM pg_attribute
    WHERE attrelid = %s::regclass AND attname = 'key'
"""
CONSTRAINTS = """
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = ANY (%s::regclass[]) ORDER BY conname
"""
COUNTS = ["shorturl_partialcount", "shorturl_visitcount"]
ANALYZED = """
    SELECT tablename FROM pg_stats WHERE attname = 'key' AND tablename = ANY (%s) ORDER BY tablename
"""


@pytest.mark.django_db(transaction=False)  # all of it is undone at the end
def test_what_is_counted_keeps_its_link_there_and_back() -> None:
    """By the link's key, which is that of a link since 0012, and by its id, as it was before."""

    def asked(query: str, *values: str | list[str]) -> list[tuple[object, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(query, [*values])
            return list(cursor.fetchall()) if cursor.description else []

    def counted(by: str) -> list[tuple[object, ...]]:
        queries = [f"SELECT {by}, hits FROM {table} ORDER BY hits" for table in COUNTS]
        return [row for query in queries for row in asked(query)]

    name = ("shorturl", "0012_counts_by_key")
    loader = MigrationLoader(connection)
    migration, before = loader.graph.nodes[name], loader.project_state(name, at_end=False)
    ids = {
        key: ShortUrl.objects.create(key=key, target_url="https://a.example/").pk for key in "ab"
    }
    for hits, key in enumerate("abba", 1):
        PartialCount.objects.create(short_url_id=key, slot=hits, hits=hits)
        upsert.record(key, Visit(browser=f"{hits}"))
        VisitCount.objects.filter(browser=f"{hits}").update(hits=hits)
    there, constraints = counted("key"), asked(CONSTRAINTS, COUNTS)
    assert len(there) == 8
    with connection.schema_editor(atomic=False) as editor:
        migration.unapply(before.clone(), editor)
    assert counted("short_url_id") == [(ids[str(key)], hits) for key, hits in there]
    asked("INSERT INTO shorturl_partialcount (short_url_id, hits) VALUES (0, 9)")  # of no link
    with connection.schema_editor(atomic=False) as editor:
        migration.apply(before.clone(), editor)
    assert counted("key") == there
    assert asked(CONSTRAINTS, COUNTS) == constraints
    assert asked(ANALYZED, COUNTS) == [(table,) for table in COUNTS]
    columns = {asked(COLUMN, table)[0] for table in ["shorturl_shorturl", *COUNTS]}
    assert len(columns) == 1


def test_a_table_in_use_is_one_line_and_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "options", f"{options['options']} -c lock_timeout=50ms")
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE shorturl_partialcount IN ACCESS SHARE MODE")
        with pytest.raises(CommandError, match="is in use: run it again with a longer"):
            call_command("migrate", "shorturl", "0011", verbosity=0)
        cursor.execute("ROLLBACK")
    assert not PartialCount.objects.filter(short_url__key="none").exists()


def test_the_lock_belongs_to_a_transaction_that_no_timeout_ends() -> None:
    """So PgBouncer keeps it on one connection of the server, and nothing stays behind there."""
    told = []
    with alone("default", waiting=lambda: told.append("the first")) as keeper:
        with keeper.cursor() as cursor:
            for name in ("idle_in_transaction_session", "statement", "lock"):
                cursor.execute(f"SHOW {name}_timeout")
                assert cursor.fetchone() == ("0",), name

        def waiting() -> None:
            told.append("the second")
            keeper.rollback()  # and with it the lock is free

        with alone("default", waiting=waiting) as second:
            assert locks() == 1
            second.rollback()
            assert locks() == 0
    assert told == ["the second"]


def locks() -> int:
    """Return how many have the migration lock in the tests' database; others may have theirs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database "
            "WHERE locktype = 'advisory' AND datname = current_database() "
            "AND objid = (hashtext(%s)::bigint & x'ffffffff'::bigint)::oid",
            [LOCK],
        )
        (count,) = cursor.fetchone()
    return int(count)
