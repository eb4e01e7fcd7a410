"""/healthz and /readyz. test_unavailable.py stops and starts the database."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.test import Client

from project.observability import health


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_is_answered_for_any_host_by_http_and_not_stored(
    client: Client, settings: Any, path: str
) -> None:
    """It is asked by GET or HEAD."""
    settings.SECURE_SSL_REDIRECT = True
    response = client.get(path, headers={"host": "10.0.0.1:8000"})
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert client.get("/", headers={"host": "10.0.0.1:8000"}).status_code == 400  # no probe
    response = client.post(path)
    assert response.status_code == 405
    assert response["Allow"] == "GET, HEAD"
    assert response["Cache-Control"] == "no-store"


def test_healthz_does_not_ask_the_database(client: Client) -> None:
    """Without the mark django_db, pytest-django fails a test that uses the database."""
    assert client.get("/healthz").json() == {"status": "up"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SET TRANSACTION READ ONLY", "the database is read-only"),
        (
            "DELETE FROM django_migrations WHERE app = 'sessions' AND name = '0001_initial'",
            "migrations are not applied: sessions.0001_initial",
        ),
        (
            "SET LOCAL ROLE pg_monitor",  # any role that owns no table
            "the database denies permission; the log says why",
        ),
    ],
    ids=["read-only", "migrations", "permission"],
)
def test_readyz_says_why_the_service_is_not_ready(
    client: Client, statement: str, reason: str
) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    with connection.cursor() as cursor:
        cursor.execute(statement)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    assert response["Cache-Control"] == "no-store"
    assert response.json() == {"status": "not ready", "reason": reason}


@pytest.mark.django_db
def test_a_cluster_whose_redirects_need_no_coordinator_is_ready_without_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "find_missing_migrations", Mock(side_effect=OperationalError))
    for needs_database, status in ((True, 503), (False, 200)):
        monkeypatch.setattr(health, "hit_counter", Mock(needs_database=needs_database))
        answer = client.get("/readyz")
        assert answer.status_code == status
        assert ("the database does not answer" in answer.text) == needs_database
