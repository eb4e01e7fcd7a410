"""Support of Citus, without a cluster; with CITUS_URL on_cluster.py runs on that cluster."""

import os
import subprocess
import sys
from string import ascii_lowercase
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from project.citus import checks, distribution
from project.citus.shard_map import Node, ShardMap, hashtext
from project.citus.tests import on_cluster
from project.tests.conftest import ROOT
from shorturl.models import ShortUrl

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
def test_distribute_is_refused_in_a_database_without_citus(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"This database has no Citus: .* CREATE EXTENSION"):
        call_command("distribute", *arguments)


def test_a_table_that_refers_to_a_reference_table_is_one_and_comes_after_it() -> None:
    """For a table that is missing, index() raises ValueError."""
    order = distribution.REFERENCE_MODELS
    for model in {*apps.get_models(include_auto_created=True)} - {*distribution.BY_KEY}:
        fields = [field for field in model._meta.fields if field.remote_field]
        related: list[Any] = [field.related_model for field in fields]
        if model in order or {*related} & {*order}:
            assert all(order.index(other) < order.index(model) for other in related)


def test_migrate_refuses_distributed_tables_before_the_first_migration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distribution, "is_distributed", lambda: True)
    call_command("migrate", verbosity=0)  # it has nothing to do, and is not refused
    with pytest.raises(CommandError, match="distribute --undo"):
        call_command("migrate", "shorturl", "zero", verbosity=0)
    assert ShortUrl.objects.count() == 0  # the table still exists


def list_messages() -> dict[str, str]:
    """Return the messages of the checks with their hints, by their ids."""
    messages = checks.check_citus()
    return {str(message.id): f"{message.msg} {message.hint}" for message in messages}


def test_the_checks_find_what_does_not_fit_the_cluster(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements that need no cluster stand for those that ask it."""
    assert list_messages() == {}
    settings.DATABASE_CITUS = True
    assert "the database has no Citus" in list_messages()["project.E010"]
    with monkeypatch.context() as patch:
        patch.setattr(checks, "fetch_rows", lambda _: [()])  # Citus is installed
        assert "Run: manage.py distribute." in list_messages()["project.W015"]
    monkeypatch.setattr(checks, "is_distributed", lambda: True)
    monkeypatch.setattr(checks, "IS_COORDINATOR", "SELECT true")
    monkeypatch.setattr(checks, "WAL_LEVEL", "SELECT 'logical'")
    monkeypatch.setattr(checks, "WORKERS", "SELECT WHERE false")
    assert list_messages() == {}
    # A worker that nothing listens on, and DATABASE_CITUS and wal_level that do not fit.
    settings.DATABASE_CITUS = False
    monkeypatch.setattr(checks, "WORKERS", "SELECT '127.0.0.1', 1")
    monkeypatch.setattr(checks, "WAL_LEVEL", "SELECT 'replica'")
    # The settings of a production: the embedded PostgreSQL of the tests takes no address.
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": "any", "USER": "any"}
    address = {"HOST": "127.0.0.1", "PORT": 1}
    monkeypatch.setattr(Node, "make_database_settings", lambda _: {**database, **address})
    messages = list_messages()
    assert "Set DATABASE_CITUS_NODES=127.0.0.1:1." in messages["project.W014"]
    assert "wal_level = logical" in messages["project.W013"]
    assert "The node 127.0.0.1:1 of the cluster: " in messages["project.W012"]
    assert "Set DATABASE_CITUS=on." in messages["project.E009"]
    monkeypatch.setattr(checks, "IS_COORDINATOR", "SELECT false")
    assert "DATABASE_URL leads to a worker" in list_messages()["project.E006"]


def test_a_key_is_hashed_as_postgresql_hashes_it() -> None:
    keys = [(ascii_lowercase * 2)[:length] for length in range(40)]
    keys += ["exactly12chr", "é", "ключ"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT hashtext(key) FROM unnest(%s) AS key", [keys])
        assert [hashtext(key) for key in keys] == [number for (number,) in cursor.fetchall()]


def test_the_map_finds_the_shard_of_a_key_and_the_node_of_a_shard() -> None:
    """A row has a shard's least hash, its number, its group (0 is this database), host and port."""
    hash_of_a = hashtext("a")
    first = (-(2**31), 1, 1, "one", 5432)
    shards = ShardMap([first, (hash_of_a, 2, 0, "here", 5432)])
    assert shards.find_shard("a") == 2
    assert shards.find_node(2) == Node()  # the coordinator
    shards = ShardMap([first, (hash_of_a + 1, 2, 2, "two", 5432)])
    assert shards.find_shard("a") == 1
    assert shards.find_node(1) == Node("one", 5432)
