"""`manage.py distribute`, as far as a plain PostgreSQL goes: Citus' functions are stand-ins.

They note which tables they are called for, as Citus does in its catalogue. What only a cluster can
say needs CITUS_URL.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from project import citus
from project.tests.conftest import run_in
from shorturl import operations
from shorturl.keys import KEY_CONSTRAINT
from shorturl.models import ShortUrl
from shorturl.recording_visits import combined as recording
from shorturl.resolving import combined, update_returning
from shorturl.visits import Visit

STANDS_IN = """
    CREATE TABLE pg_dist_partition (logicalrelid regclass);
    CREATE FUNCTION create_reference_table(text) RETURNS void LANGUAGE sql
        AS 'INSERT INTO pg_dist_partition VALUES ($1::regclass)';
    CREATE FUNCTION create_distributed_table(text, text) RETURNS void LANGUAGE sql
        AS 'INSERT INTO pg_dist_partition VALUES ($1::regclass)';
    CREATE FUNCTION undistribute_table(regclass, cascade_via_foreign_keys bool) RETURNS void
        LANGUAGE sql AS 'DELETE FROM pg_dist_partition'
"""
PRIMARY_KEY = f"""
    SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '{citus.PRIMARY_KEY}'
"""
pytestmark = pytest.mark.django_db


@pytest.fixture
def stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(citus, "is_installed", lambda: True)
    with connection.cursor() as cursor:
        cursor.execute(STANDS_IN)


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    call_command("distribute", *options)
    return capsys.readouterr().out.splitlines()


def test_without_the_extension_it_is_told() -> None:
    with pytest.raises(
        CommandError, match=r"This database has no Citus: .* CREATE EXTENSION citus"
    ):
        call_command("distribute")


@pytest.mark.usefixtures("stands_in")
def test_there_twice_and_back_twice(capsys: pytest.CaptureFixture[str]) -> None:
    planned = printed(capsys, "--dry-run")
    assert citus.rows(PRIMARY_KEY) == [("PRIMARY KEY (id)",)]
    assert printed(capsys) == planned
    assert citus.rows("SHOW statement_timeout") == citus.rows("SHOW lock_timeout") == [("0",)]
    assert planned[0].startswith("SET LOCAL")
    assert planned[-1] == "SELECT create_distributed_table('shorturl_shorturl', 'key');"
    users = planned.index("SELECT create_reference_table('auth_user');")
    assert users < planned.index("SELECT create_reference_table('shorturl_apitoken');")
    assert citus.rows(PRIMARY_KEY) == [("PRIMARY KEY (key, id)",)]
    assert printed(capsys) == ["Nothing to do."]
    undone = " ".join(" ".join(printed(capsys, "--undo")).split())
    assert undone.count("cascade_via_foreign_keys => true") == len(planned) - 2
    assert citus.rows(citus.DISTRIBUTED) == []
    assert citus.rows(PRIMARY_KEY) == [("PRIMARY KEY (id)",)]
    assert printed(capsys, "--undo") == ["Nothing to do."]


@pytest.mark.usefixtures("stands_in")
def test_what_fails_halfway_has_done_nothing() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION create_distributed_table(text, text)")
    with pytest.raises(CommandError, match=r"The database: .* Nothing was done\."):
        call_command("distribute")
    assert citus.rows(citus.DISTRIBUTED) == []
    assert citus.rows(PRIMARY_KEY) == [("PRIMARY KEY (id)",)]


@pytest.mark.usefixtures("stands_in")
def test_duplicate_keys_are_told() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {citus.LINKS} DROP CONSTRAINT {KEY_CONSTRAINT}")
        for _ in range(2):
            cursor.execute(f"INSERT INTO {citus.LINKS} (key, target_url) VALUES ('two', 'x')")
    with pytest.raises(CommandError, match="The key 'two' is there more than once"):
        call_command("distribute")


def test_every_strategy_has_a_line_in_the_tables() -> None:
    assert {name: sorted(lines) for name, lines in citus.TABLES.items()} == {
        name: sorted(strategies) for name, strategies in operations.STRATEGIES.items()
    }


def called(function: Callable[..., object], *arguments: object) -> set[str]:
    """Return the names in front of a parenthesis in what a strategy sends."""
    with CaptureQueriesContext(connection) as captured:
        function(*arguments)
    return {name for query in captured for name in re.findall(r"(\w+)\(", query["sql"])}


def test_no_redirect_calls_what_citus_takes_in_no_update() -> None:
    ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    names = called(update_returning.resolve, "hot") | called(combined.resolve, "hot")
    names |= called(recording.record, "hot", Visit())
    volatile = "SELECT proname FROM pg_proc WHERE provolatile = 'v'"
    assert "statement_timestamp" in names
    assert names.isdisjoint(name for (name,) in citus.rows(volatile))


@pytest.mark.usefixtures("stands_in")
def test_a_strategy_that_cannot_run_there_is_refused(settings: object) -> None:
    def refused() -> list[str]:
        found = run_checks(tags=[Tags.database], databases=["default"])
        return [each.msg.partition(":")[0] for each in found if each.id == "project.E005"]

    settings.SHORTURL_RESOLVING = "slotted_counter"  # type: ignore[attr-defined]
    settings.SHORTURL_VISITS = "combined"  # type: ignore[attr-defined]
    settings.SHORTURL_IDEMPOTENCY = "advisory_lock"  # type: ignore[attr-defined]
    settings.SHORTURL_REUSING = "on_conflict"  # type: ignore[attr-defined]
    assert refused() == []
    call_command("distribute")
    assert refused() == [
        "SHORTURL_RESOLVING='slotted_counter' cannot run on Citus",
        "SHORTURL_IDEMPOTENCY='advisory_lock' cannot run on Citus",
    ]


@pytest.mark.skipif("CITUS_URL" not in os.environ, reason="it takes a cluster, named by CITUS_URL")
def test_on_a_cluster(project_copy: Path) -> None:
    where = {"DATABASE_URL": os.environ.get("CITUS_URL", ""), "SHORTURL_LOCAL": "on"}
    for command in (("migrate",), ("distribute",), ("distribute",), ("distribute", "--undo")):
        ended = run_in(project_copy, "manage.py", *command, **where)
        assert ended.returncode == 0, ended.stderr
