"""/healthz and /readyz. The database going away and coming back is in test_unavailable.py."""

import socket
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from project.tests.conftest import PRODUCTION, Run

PROBES = ("/healthz", "/readyz")


@pytest.mark.django_db
@pytest.mark.parametrize("path", PROBES)
def test_a_probe_is_answered_and_not_kept(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize("path", PROBES)
def test_a_probe_comes_with_any_host_and_by_plain_http(
    client: Client, settings: Any, path: str
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert client.get(path, headers={"host": "10.0.0.1:8000"}).status_code == 200
    assert client.get("/", headers={"host": "10.0.0.1:8000"}).status_code == 400


@pytest.mark.django_db
@pytest.mark.parametrize("path", PROBES)
def test_head_is_answered_and_other_methods_are_not(client: Client, path: str) -> None:
    assert client.head(path).status_code == 200
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        response = client.generic(method, path)
        assert response.status_code == 405
        assert response["Allow"] == "GET, HEAD"
        assert response["Cache-Control"] == "no-store"


def test_healthz_does_not_ask_the_database(client: Client) -> None:
    """pytest-django fails a test without its mark that does."""
    assert client.get("/healthz").json() == {"status": "up"}


@pytest.mark.django_db
def test_readyz_names_the_migrations_that_are_missing(client: Client) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'sessions' AND name = '0001_initial'"
        )
    response = client.get("/readyz")
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    assert response["Cache-Control"] == "no-store"
    assert response.json() == {
        "status": "not ready",
        "reason": "migrations are not applied: sessions.0001_initial",
    }


@pytest.mark.django_db
def test_readyz_says_when_nothing_is_migrated(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_migrations RENAME TO elsewhere")
    assert "shorturl.0001_initial" in client.get("/readyz").json()["reason"]


GET_READYZ = """
import django
django.setup()
from django.test import Client
response = Client().get("/readyz")
print(response.status_code, response.json()["reason"])
"""


def test_readyz_gives_up_on_a_database_that_does_not_answer_and_tells_no_secrets(run: Run) -> None:
    """It listens and says nothing: without a connect timeout the probe would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ended = run(
            "-c",
            GET_READYZ,
            **PRODUCTION
            | {
                "DATABASE_URL": f"postgres://user:s3cret@127.0.0.1:{silent.getsockname()[1]}/name",
                "DATABASE_CONNECT_TIMEOUT": "2",
                "DJANGO_SETTINGS_MODULE": "project.settings",
            },
        )
    assert ended.stdout == "503 the database does not answer; the log says why\n"
    assert "timeout expired" in ended.stderr
    assert "s3cret" not in ended.stderr
