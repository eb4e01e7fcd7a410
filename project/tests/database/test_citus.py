"""Support of Citus, without a cluster; with CITUS_URL on_citus.py runs on that cluster."""

import os
import subprocess
import sys
import time

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from project.database import citus, nodes_of_keys
from project.database.citus_checks import check_citus
from project.tests.conftest import ROOT
from project.tests.database import citus_walk, on_citus
from project.tests.database.citus_ways import TABLES
from shorturl import following
from shorturl.strategies.table import STRATEGIES
from shorturl.tests.callers import with_cursor

pytestmark = pytest.mark.django_db


@pytest.mark.skipif("CITUS_URL" not in os.environ, reason="CITUS_URL names no cluster")
def test_on_a_cluster() -> None:
    cluster = {
        "DATABASE_URL": os.environ["CITUS_URL"],
        "DATABASE_CITUS": "on",
        "DATABASE_STATEMENT_TIMEOUT": "60",
        "SHORTURL_LOCAL": "on",
    }
    command = [sys.executable, "-m", "pytest", on_citus.__file__]
    subprocess.run(command, cwd=ROOT, env={"PATH": os.environ["PATH"], **cluster}, check=True)


@pytest.mark.django_db(transaction=True)
def test_a_walk_through_the_service_without_a_cluster(settings: Settings) -> None:
    settings.LOCAL, settings.DATABASE_CITUS = True, True
    citus_walk.walk()


# --- manage.py distribute ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], r"This database has no Citus: .* CREATE EXTENSION citus"),
        (["--undo"], "no Citus, so none of its tables is distributed"),
    ],
)
def test_an_impossible_command_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("distribute", *arguments)


def test_without_the_extension_the_sql_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("distribute", "--dry-run")
    shown = capsys.readouterr()
    assert shown.err.startswith("This database has no Citus")
    beside = "'key', colocate_with => 'shorturl_shorturl');"
    assert [line for line in shown.out.splitlines() if "create_distributed_table" in line] == [
        "SELECT create_distributed_table('shorturl_shorturl', 'key');",
        f"SELECT create_distributed_table('shorturl_visitcount', {beside}",
        f"SELECT create_distributed_table('shorturl_recentvisits', {beside}",
        f"SELECT create_distributed_table('exhibits_partialcount', {beside}",
        f"SELECT create_distributed_table('exhibits_singlevisit', {beside}",
    ]
    call_command("distribute", "--dry-run", "--undo")
    undone = capsys.readouterr().out
    assert undone.count("SELECT undistribute_table") == shown.out.count("SELECT create_")


def test_accounts_and_tables_tied_to_them_are_on_every_node() -> None:
    """In the order of their foreign keys; other tables stay plain ones."""
    order = [model._meta.db_table for model in citus.reference_models()]
    assert {"auth_user", "shorturl_apitoken", "django_admin_log"} < {*order}
    assert {*order}.isdisjoint({"django_session", "shorturl_spending", "shorturl_keptanswer"})
    assert order.index("auth_user") < order.index("shorturl_apitoken")
    assert order.index("django_content_type") < order.index("auth_permission")


# --- The checks; the tests make the answers of the cluster ---------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Have the checks find a coordinator, and the default settings of a cluster."""
    monkeypatch.setattr(citus, "is_distributed", lambda: True)
    monkeypatch.setattr(citus, "COORDINATOR", "SELECT")
    settings.DATABASE_CITUS, settings.DATABASE_LOCK_TIMEOUT = True, 0


def found() -> dict[str, str]:
    return {str(each.id): f"{each.msg} {each.hint}" for each in check_citus()}


def test_database_citus_before_distribute(settings: Settings) -> None:
    assert found() == {}
    settings.DATABASE_CITUS = True
    assert "Run manage.py distribute" in found()["project.W007"]


@pytest.mark.usefixtures("cluster")
def test_settings_that_cannot_run_are_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found() == {}
    settings.DATABASE_CITUS = False
    said = found()
    assert "Set DATABASE_CITUS=on." in said["project.E009"]
    monkeypatch.setattr(citus, "COORDINATOR", "SELECT WHERE false")
    assert "DATABASE_URL leads to a worker" in found()["project.E006"]


LOCK_TIMEOUTS = """
    CREATE FUNCTION run_command_on_workers(text)
    RETURNS TABLE (nodename text, nodeport int, success bool, result text) LANGUAGE sql AS
    $$ VALUES ('one', 5432, true, '0'), ('two', 5432, true, '500ms'), ('away', 5432, false, '') $$
"""


@pytest.mark.usefixtures("cluster")
def test_a_warning_names_workers_without_a_lock_timeout(settings: Settings) -> None:
    with connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUTS)
    role = connection.settings_dict["USER"] or "postgres"
    assert found() == {}, "no limit is set"
    settings.DATABASE_LOCK_TIMEOUT = 1
    assert found()["project.W009"] == (
        f"The role {role} has no lock_timeout on one:5432: a statement waits for a row there "
        f"until statement_timeout. On the coordinator: ALTER ROLE {role} SET lock_timeout = '500ms'"
    )


def test_every_strategy_has_a_line_in_the_tables() -> None:
    assert {name: sorted(lines) for name, lines in TABLES.items()} == {
        name: sorted(strategies) for name, strategies in STRATEGIES.items()
    }


# --- The nodes of keys ---------------------------------------------------------------------------

# The catalogue and the function of LOOK_UP; here, a key of one letter is on node 1.
CATALOGUE = """
    CREATE TEMP TABLE pg_dist_placement AS
        SELECT node AS shardid, node AS groupid FROM generate_series(1, 2) AS node;
    CREATE FUNCTION pg_temp.by_length(regclass, text) RETURNS int LANGUAGE sql
        AS 'SELECT length($2)'
"""


def test_a_place_is_looked_up_once_and_anew_after_a_failure_and_after_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking = nodes_of_keys.LOOK_UP.replace(
        "get_shard_id_for_distribution_column", "pg_temp.by_length"
    )
    monkeypatch.setattr(nodes_of_keys, "LOOK_UP", asking)
    with connection.cursor() as cursor:
        cursor.execute(CATALOGUE)
    known = nodes_of_keys.Places()

    def looks(*keys: str) -> int:
        with CaptureQueriesContext(connection) as sent:
            assert with_cursor(known.look_up, dict.fromkeys(keys)) == {}
        return len(sent)

    assert known.of("a") is None
    assert looks("a", "bb") == 1
    assert (known.of("a"), known.of("bb")) == (1, 2)
    assert looks("a", "bb") == 0

    def fail(*_: object) -> None:
        raise IntegrityError

    monkeypatch.setattr(following, "count_key", fail)
    with pytest.raises(IntegrityError):
        with_cursor(known.count_key, "a", [])
    assert (known.of("a"), known.of("bb")) == (None, 2)
    assert looks("a", "bb") == 1
    monkeypatch.setattr(known, "until", time.monotonic() - 1)
    assert looks("a") == 1
    assert known.of("bb") is None
