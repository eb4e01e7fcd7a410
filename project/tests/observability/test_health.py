"""/healthz and /readyz. The database going away and coming back is in test_unavailable.py."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_comes_with_any_host_by_plain_http_and_is_not_kept(
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
