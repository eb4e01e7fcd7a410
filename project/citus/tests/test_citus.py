"""Support of Citus, without a cluster; with CITUS_URL on_cluster.py runs on that cluster."""

import os
import subprocess
import sys

import psycopg2
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from project.citus import checks, distribution, shard_map
from project.citus.apps import refuse_distributed_tables
from project.citus.shard_map import Node, ShardMap, hashtext
from project.citus.tests import on_cluster
from project.tests.conftest import ROOT

pytestmark = pytest.mark.django_db


@pytest.mark.skipif("CITUS_URL" not in os.environ, reason="CITUS_URL names no cluster")
def test_on_a_cluster() -> None:
    cluster = {
        "DATABASE_URL": os.environ["CITUS_URL"],
        "DATABASE_CITUS": "on",
        "DATABASE_STATEMENT_TIMEOUT": "60",
        "PGOPTIONS": "-c lock_timeout=60s",
        "SHORTURL_LOCAL": "on",
    }
    command = [sys.executable, "-m", "pytest", on_cluster.__file__]
    subprocess.run(command, cwd=ROOT, env={"PATH": os.environ["PATH"], **cluster}, check=True)


@pytest.mark.parametrize("arguments", [[], ["--undo"]])
def test_an_impossible_command_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"This database has no Citus: .* CREATE EXTENSION"):
        call_command("distribute", *arguments)


def test_without_the_extension_the_sql_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("distribute", "--dry-run")
    shown = capsys.readouterr()
    assert shown.err.startswith("This database has no Citus")
    lines = [line for line in shown.out.splitlines() if "create_distributed_table" in line]
    beside = "'key', colocate_with => 'shorturl_shorturl');"
    assert lines[:4] == [
        "SELECT create_distributed_table('shorturl_shorturl', 'key');",
        f"SELECT create_distributed_table('shorturl_recentvisits', {beside}",
        f"SELECT create_distributed_table('shorturl_hourlyvisits', {beside}",
        f"SELECT create_distributed_table('shorturl_dailyvisits', {beside}",
    ]
    call_command("distribute", "--dry-run", "--undo")
    undone = capsys.readouterr().out
    assert undone.count("SELECT undistribute_table") == shown.out.count("SELECT create_")


def test_accounts_and_tables_tied_to_them_are_on_every_node() -> None:
    """In the order of their foreign keys; other tables stay plain ones."""
    order = [model._meta.db_table for model in distribution.list_reference_models()]
    assert {"auth_user", "shorturl_apitoken", "django_admin_log"} < {*order}
    assert {*order}.isdisjoint({"django_session", "shorturl_spending", "shorturl_keptanswer"})
    assert order.index("auth_user") < order.index("shorturl_apitoken")


def test_migrate_refuses_distributed_tables_before_the_first_migration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_distributed_tables(plan=["a migration"])
    monkeypatch.setattr(distribution, "is_distributed", lambda: True)
    refuse_distributed_tables(plan=[])
    with pytest.raises(CommandError, match="distribute --undo"):
        refuse_distributed_tables(plan=["a migration"])


def list_warnings() -> dict[str, str]:
    messages = checks.check_citus()
    return {str(message.id): f"{message.msg} {message.hint}" for message in messages}


def test_the_checks_of_a_coordinator(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test makes the answers of the cluster."""
    settings.DATABASE_CITUS = True
    assert "Run manage.py distribute" in list_warnings()["project.W007"]
    monkeypatch.setattr(distribution, "is_distributed", lambda: True)
    monkeypatch.setattr(distribution, "COORDINATOR", "SELECT")
    monkeypatch.setattr(checks, "VERSION", "SELECT '13.2.2'")
    monkeypatch.setattr(checks, "WAL_LEVEL", "SELECT 'logical'")
    monkeypatch.setattr(checks, "READ_MAP", "SELECT 0, 1, 0, %s, 5432")
    assert list_warnings() == {}
    monkeypatch.setattr(checks, "READ_MAP", "SELECT 0, 1, 1, substr(%s, 1, 0) || '127.0.0.1', 1")
    monkeypatch.setattr(checks, "WAL_LEVEL", "SELECT 'replica'")
    monkeypatch.setattr(checks, "VERSION", "SELECT '14.0.1'")
    away = {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": 1}
    monkeypatch.setattr(Node, "database", lambda node: {**away, "NAME": "any", "USER": "any"})
    settings.DATABASE_CITUS = False
    found = list_warnings()
    assert "Set DATABASE_CITUS_NODES=127.0.0.1:1." in found["project.W014"]
    assert "wal_level = logical" in found["project.W013"]
    assert "its short URLs are a 503" in found["project.W012"]
    assert "Citus 14.0.1" in found["project.W011"]
    assert "Set DATABASE_CITUS=on." in found["project.E009"]
    monkeypatch.setattr(distribution, "COORDINATOR", "SELECT WHERE false")
    assert "DATABASE_URL leads to a worker" in list_warnings()["project.E006"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"TABLE": "none"}, "it lacks the extension, or the tables"),
        ({"HASH": "length"}, "it hashes keys differently"),
        ({"TIMEOUT": 3}, "it has another lock_timeout"),
    ],
)
def test_a_node_that_redirects_cannot_use_is_named(
    changed: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """This PostgreSQL is the node."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        milliseconds = int(cursor.fetchone()[0].removesuffix("s")) * 1000
    settings.DATABASE_LOCK_TIMEOUT = changed.get("TIMEOUT", milliseconds // 500)
    statement = shard_map.CHECK_NODE.replace("hashtext", changed.get("HASH", "hashtext"))
    monkeypatch.setattr(shard_map, "CHECK_NODE", statement)
    monkeypatch.setattr(shard_map, "LINKS", changed.get("TABLE", shard_map.LINKS))
    assert shard_map.find_problem(connection) == problem


def test_a_key_is_hashed_as_postgresql_hashes_it() -> None:
    keys = ["".join(chr(97 + n % 26) for n in range(length)) for length in range(40)]
    keys += [*shard_map.SAMPLE_KEYS, "ключ"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT hashtext(key) FROM unnest(%s) AS key", [keys])
        assert [hashtext(key) for key in keys] == [number for (number,) in cursor.fetchall()]


def test_a_key_is_of_the_shard_with_its_hash_and_a_lost_shard_of_the_coordinator() -> None:
    middle = hashtext("a")
    known = ShardMap([(-(2**31), 1, 1, "one", 5432), (middle, 2, 0, "here", 5432)])
    assert (known.find_shard("a"), known.find_node(2)) == (2, Node())
    least = ShardMap([(-(2**31), 1, 1, "one", 5432), (middle + 1, 2, 2, "two", 5432)])
    assert (least.find_shard("a"), least.find_node(1)) == (1, Node("one", 5432))
    assert least.find_node(3) == Node()
    with pytest.raises(psycopg2.OperationalError, match="not distributed"):
        ShardMap([]).find_shard("a")
