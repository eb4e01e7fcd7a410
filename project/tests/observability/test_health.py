"""/healthz and /readyz. test_unavailable.py stops and starts the database."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_is_answered_for_any_host_by_http_and_not_stored(
    client: Client, settings: Any, path: str
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    response = client.get(path, headers={"host": "10.0.0.1:8000"})
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert client.get("/", headers={"host": "10.0.0.1:8000"}).status_code == 400
    response = client.post(path)
    assert response.status_code == 405
    assert response["Allow"] == "GET, HEAD"
    assert response["Cache-Control"] == "no-store"


def test_healthz_does_not_ask_the_database(client: Client) -> None:
    """Without the mark django_db, pytest-django fails a test that uses the database."""
    assert client.get("/healthz").json() == {"status": "up"}


@pytest.mark.django_db
def test_readyz_says_that_the_database_is_read_only(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    response = client.get("/readyz")
    assert (response.status_code, response.json()["reason"]) == (503, "the database is read-only")


@pytest.mark.django_db
def test_readyz_names_missing_migrations(client: Client) -> None:
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
