"""The system checks of the database."""

import time
from typing import Any
from unittest.mock import Mock

import pytest
from django.apps import apps
from django.core.checks import Tags, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings

from loadtests.servers import serving
from project.database import database_checks
from project.tests.conftest import ROOT, database, run_in

pytestmark = pytest.mark.django_db
LAB = {"exhibits", "lab", "room"}


def list_messages() -> list[str]:
    return [message.msg for message in run_checks(tags=[Tags.database], databases=["default"])]


@pytest.mark.parametrize(
    ("chosen", "connections_of_a_worker"),  # of four threads, and 6 others; 21 deliver events
    [({}, 10), ({"SHORTURL_DELIVER": True}, 31)],
)
def test_more_connections_than_postgresql_allows_are_a_warning(
    chosen: dict[str, Any], connections_of_a_worker: int
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW max_connections")
        limit = int(cursor.fetchone()[0])
        cursor.execute("SHOW superuser_reserved_connections")
        reserved = int(cursor.fetchone()[0])
    workers = (limit - reserved) // connections_of_a_worker
    with override_settings(WORKERS=workers, THREADS=4, **chosen):
        assert list_messages() == []
    workers += 1
    with override_settings(WORKERS=workers, THREADS=4, **chosen):
        assert list_messages() == [
            f"The service may open {workers * connections_of_a_worker} connections: WORKERS "
            f"{workers} × {connections_of_a_worker}. PostgreSQL allows {limit - reserved}: "
            f"max_connections {limit} less {reserved} reserved ones."
        ]
    with override_settings(WORKERS=workers, THREADS=4, DATABASE_POOLER="transaction"):
        assert list_messages() == []  # the connections are PgBouncer's


@pytest.mark.parametrize("seconds", [90, -90])
def test_clocks_that_differ_are_a_warning(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    (message,) = list_messages()
    assert message.startswith("The clocks of this machine and of the database differ by ")
    database_checks.check_at_start(log := Mock())
    assert "differ by " in str(log.warning.call_args)


def test_a_database_that_does_not_answer_is_logged_and_stops_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse = Mock(side_effect=OperationalError("refused"))
    monkeypatch.setattr(database_checks, "find_missing_migrations", refuse)
    database_checks.check_at_start(log := Mock())
    assert "does not answer" in str(log.warning.call_args)


def test_migrate_refuses_a_database_with_a_migration_that_the_project_lacks() -> None:
    """Migrations of other apps do not matter: an operator may have more of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied)"
            " VALUES ('shorturl', '0022_forward_query', now()), ('other', '0001_initial', now())"
        )
    assert list_messages() == [
        "Another state of this project made the database: it has shorturl.0022_forward_query."
    ]
    with pytest.raises(SystemCheckError, match=r"run manage\.py import_links"):
        call_command("migrate", skip_checks=False)


def test_the_lab_can_be_turned_off_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its migrations stay applied, and its tables meet nothing of the service."""
    assert "room" in {app for app, _name in MigrationRecorder(connection).applied_migrations()}
    installed = [config for config in apps.get_app_configs() if config.label not in LAB]
    monkeypatch.setattr(apps, "app_configs", {config.label: config for config in installed})
    assert list_messages() == []


@pytest.mark.django_db(transaction=True)
def test_a_database_with_another_encoding_is_refused_by_check_and_at_the_start() -> None:
    refused = "The database has the encoding SQL_ASCII, and the service needs UTF8."
    with database("shorturl_ascii", "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0") as url:
        environment = {"DATABASE_URL": url, "SHORTURL_LOCAL": "on"}
        ended = run_in(ROOT, "manage.py", "check", "--database", "default", **environment)
        assert ended.returncode == 1
        assert refused in ended.stderr
        with (
            pytest.raises(ChildProcessError, match="createdb --encoding=UTF8"),
            serving(DATABASE_URL=url),
        ):
            pass


def test_the_migrations_make_what_the_models_say() -> None:
    call_command("makemigrations", check_changes=True)
