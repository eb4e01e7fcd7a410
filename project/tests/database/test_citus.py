"""Support of Citus, without a cluster."""

from contextlib import closing

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.utils import ConnectionHandler
from pytest_django import Settings

from project.database import citus, citus_checks, shards
from project.database.citus_checks import check_citus
from project.tests.database.citus_ways import TABLES
from shorturl.strategies.table import STRATEGIES

pytestmark = pytest.mark.django_db


# --- manage.py distribute ------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--undo"]])
def test_an_impossible_command_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"This database has no Citus: .* CREATE EXTENSION"):
        call_command("distribute", *arguments)


def test_without_the_extension_the_sql_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("distribute", "--dry-run")
    shown = capsys.readouterr()
    assert shown.err.startswith("This database has no Citus")
    beside = "'key', colocate_with => 'shorturl_shorturl');"
    assert [line for line in shown.out.splitlines() if "create_distributed_table" in line] == [
        "SELECT create_distributed_table('shorturl_shorturl', 'key');",
        f"SELECT create_distributed_table('shorturl_recentvisits', {beside}",
        f"SELECT create_distributed_table('shorturl_hourlyvisits', {beside}",
        f"SELECT create_distributed_table('shorturl_dailyvisits', {beside}",
        f"SELECT create_distributed_table('exhibits_partialcount', {beside}",
    ]
    call_command("distribute", "--dry-run", "--undo")
    undone = capsys.readouterr().out
    assert undone.count("SELECT undistribute_table") == shown.out.count("SELECT create_")


def test_accounts_and_tables_tied_to_them_are_on_every_node() -> None:
    """In the order of their foreign keys; other tables stay plain ones."""
    order = [model._meta.db_table for model in citus.reference_models()]
    assert {"auth_user", "shorturl_apitoken", "django_admin_log"} < {*order}
    assert {*order}.isdisjoint(
        {"django_session", "shorturl_quotausage", "shorturl_idempotencyrecord"}
    )
    assert order.index("auth_user") < order.index("shorturl_apitoken")
    assert order.index("django_content_type") < order.index("auth_permission")


# --- The checks; the tests make the answers of the cluster ---------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Have the checks find a coordinator, and the default settings of a cluster."""
    monkeypatch.setattr(citus, "is_distributed", lambda: True)
    monkeypatch.setattr(citus, "COORDINATOR", "SELECT")
    monkeypatch.setattr(citus_checks, "VERSION", "SELECT '13.2.2'")
    monkeypatch.setattr(shards, "READ", "SELECT 0, 1, 0, %s, 5432")
    settings.DATABASE_CITUS = True


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


@pytest.mark.usefixtures("cluster")
def test_a_warning_names_a_version_that_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(citus_checks, "VERSION", "SELECT '14.0.1'")
    assert "Citus 14.0.1" in found()["project.W011"]


@pytest.mark.parametrize(
    ("different", "due"),
    [
        ({}, ""),
        ({"TABLE": "none"}, "it lacks the extension, or the tables"),
        ({"HASH": "length"}, "it hashes keys differently"),
        ({"LIMIT": "7s"}, "it has another lock_timeout"),
        ({"USER": "nobody"}, "the role may not log in"),
        ({"HOST": "none.invalid"}, "its name does not resolve here"),
    ],
)
def test_a_node_that_redirects_cannot_use_is_named_with_what_mends_it(
    different: dict[str, str], due: str, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """This PostgreSQL is the node."""
    ask = shards.ASK.replace("hashtext", different.get("HASH", "hashtext"))
    monkeypatch.setattr(shards, "ASK", ask)
    monkeypatch.setattr(shards, "LINKS", different.get("TABLE", shards.LINKS))
    settings.DATABASE_LOCK_TIMEOUT = 1
    options = {"options": f"-c lock_timeout={different.get('LIMIT', '500ms')}"}
    there = connection.connection.info
    database = {**connection.settings_dict, "ENGINE": "django.db.backends.postgresql"}
    database |= {"HOST": there.host, "PORT": there.port, "USER": there.user, "NAME": there.dbname}
    database |= {**different, "OPTIONS": options}
    with closing(ConnectionHandler({"default": database})["default"]) as there:
        assert shards.problem(there) == due
    monkeypatch.setattr(shards, "problem", lambda there: due)
    database = {**shards.Node("one", 5433).database, "USER": "me"}
    monkeypatch.setattr(shards.Node, "database", database)
    said = [f"{each.msg} {each.hint}" for each in citus_checks.unusable(shards.Node("one", 5433))]
    if due:
        assert said[0].startswith(f"The node one:5433 of the cluster: {due}; its redirects go thro")
        assert shards.MENDS[due].split("{")[0] in said[0]
    assert len(said) == bool(due)


def test_every_strategy_has_a_line_in_the_tables() -> None:
    assert {name: sorted(lines) for name, lines in TABLES.items()} == {
        name: sorted(strategies) for name, strategies in STRATEGIES.items()
    }


# --- The nodes of keys ---------------------------------------------------------------------------


def test_a_key_is_hashed_as_postgresql_hashes_it() -> None:
    keys = ["".join(chr(97 + n % 26) for n in range(length)) for length in range(40)]
    keys += [*shards.SAMPLES, "ключ"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT hashtext(key) FROM unnest(%s) AS key", [keys])
        assert [shards.hashtext(key) for key in keys] == [found for (found,) in cursor.fetchall()]


def test_a_key_is_of_the_shard_with_its_hash_and_a_lost_shard_of_the_coordinator() -> None:
    middle = shards.hashtext("a")
    known = shards.Shards([(-(2**31), 1, 1, "one", 5432), (middle, 2, 0, "here", 5432)])
    assert (known.of("a"), known.node(2)) == (2, shards.Node())
    least = shards.Shards([(-(2**31), 1, 1, "one", 5432), (middle + 1, 2, 2, "two", 5432)])
    assert (least.of("a"), least.node(1), least.node(3)) == (1, ("one", 5432), shards.Node())
    with pytest.raises(OperationalError, match="not yet said"):
        shards.Shards([]).of("a")
