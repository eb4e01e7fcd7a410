"""What a service that starts on a cluster is told; the cluster's answers are the test's own."""

import pytest
from django.db import connection, connections
from pytest_django import Settings
from ruamel.yaml import YAML

from project.database import citus
from project.database.citus_checks import check_citus
from project.database.citus_strategies import REFUSED, SINGLE_SHARD, TABLES
from project.tests.conftest import ROOT
from project.tests.test_settings import Load, load
from shorturl import operations

__all__ = ["load"]  # a fixture
LOCK_TIMEOUTS = """
    CREATE FUNCTION run_command_on_workers(text)
    RETURNS TABLE (nodename text, nodeport int, success bool, result text) LANGUAGE sql AS
    $$ VALUES ('one', 5432, true, '0'), ('two', 5432, true, '500ms'), ('away', 5432, false, '') $$
"""
pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Have the checks find a coordinator, and settings as they are there by default."""
    monkeypatch.setattr(citus, "is_distributed", lambda: True)
    monkeypatch.setattr(citus, "is_coordinator", lambda: True)
    settings.DATABASE_CITUS = True
    settings.SHORTURL_VISITS, settings.SHORTURL_ROLLING_UP = "one_transaction", "by_key"


def found() -> dict[str, str]:
    return {str(each.id): f"{each.msg} {each.hint}" for each in check_citus()}


@pytest.mark.usefixtures("cluster")
def test_what_is_set_for_a_cluster_is_right() -> None:
    assert found() == {}


def test_a_setting_before_its_time(settings: Settings) -> None:
    assert found() == {}
    settings.DATABASE_CITUS = True
    assert "Run manage.py distribute" in found()["project.W007"]


@pytest.mark.usefixtures("cluster")
def test_statements_of_several_keys_are_refused(settings: Settings) -> None:
    settings.DATABASE_CITUS = False
    assert "Set DATABASE_CITUS=on." in found()["project.E009"]


@pytest.mark.usefixtures("cluster")
def test_a_strategy_that_is_refused_and_one_that_is_slow(settings: Settings) -> None:
    settings.SHORTURL_REUSING = "serializable"
    settings.SHORTURL_VISITS = "combined"
    said = found()
    assert said["project.E005"].startswith("SHORTURL_REUSING='serializable' cannot run on Citus:")
    assert said["project.W008"].startswith("SHORTURL_VISITS='combined' is slow on Citus:")
    assert said["project.W008"].endswith("Faster there: one_transaction.")


@pytest.mark.usefixtures("cluster")
def test_a_worker_and_a_replica_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(connections.settings, "replica", connections.settings["default"])
        assert "project.E007" in found()
    monkeypatch.setattr(citus, "is_coordinator", lambda: False)
    assert "DATABASE_URL leads to a worker" in found()["project.E006"]


@pytest.mark.usefixtures("cluster")
def test_workers_without_a_lock_timeout_are_named_and_the_command(settings: Settings) -> None:
    with connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUTS)
    role = connection.settings_dict["USER"] or "postgres"
    assert found()["project.W009"] == (
        f"The role {role} has no lock_timeout on one:5432: who waits for a row there waits "
        f"until statement_timeout. On the coordinator: ALTER ROLE {role} SET lock_timeout = '500ms'"
    )
    settings.DATABASE_LOCK_TIMEOUT = 0  # on purpose
    assert found() == {}


def test_every_strategy_has_a_line_in_the_tables() -> None:
    assert {name: sorted(lines) for name, lines in TABLES.items()} == {
        name: sorted(strategies) for name, strategies in operations.STRATEGIES.items()
    }


def test_the_profile_chooses_what_is_one_nodes_work(load: Load) -> None:
    services = YAML(typ="safe", pure=True).load(ROOT / "docker-compose.yml")["services"]
    environment = services["citus-web"]["environment"]
    names = ("DATABASE_CITUS", *map(operations.setting, TABLES))
    chosen = load(**{name: environment[name] for name in names if name in environment})
    ways = {name: TABLES[name][chosen[operations.setting(name)]][0] for name in TABLES}
    assert REFUSED not in ways.values()
    one_node = ("creating", "resolving", "recording_visits", "rolling_up")
    assert {ways[operation] for operation in one_node} == {SINGLE_SHARD}
