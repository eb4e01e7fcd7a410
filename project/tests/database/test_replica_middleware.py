"""The middleware's decisions without a replica; loadtests/tests/test_replica.py uses one."""

import logging
import time
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from project.database import deadlines, replica
from project.database.database_checks import bounded
from shorturl.models import ShortUrl

LIMIT = 0.2  # seconds


class Near(replica.Replica):
    off = False

    def has(self, position: int) -> bool:
        return True

    def failed(self) -> None:
        self.off = True


def where() -> str:
    return replica.Router().db_for_read(ShortUrl)


def asked(path: str, status: int = 200) -> tuple[list[str], Near]:
    """Return where a GET reads, if the replica's answer has this status."""
    places: list[str] = []

    def view(request: HttpRequest) -> HttpResponse:
        places.append(where())
        return HttpResponse(status=status if places[-1] == "replica" else 200)

    middleware = replica.ReplicaMiddleware(view)
    middleware.replica = near = Near()
    assert middleware(RequestFactory().get(path)).status_code == 200
    return places, near


@pytest.mark.parametrize(("age", "is_read"), [(9, True), (11, False)])
def test_a_replica_that_is_too_old_is_not_read(
    monkeypatch: pytest.MonkeyPatch, settings: Any, age: int, is_read: bool
) -> None:
    """It has replayed the log of the primary up to `age` seconds ago."""
    settings.DATABASE_REPLICA_LAG = 10
    asked = replica.Replica()
    replayed = (True, "0/100")
    places = {replica.POSITION: ["0/100"], replica.IDENTITY: (1,), replica.REPLAYED: replayed}
    monkeypatch.setattr(replica, "connections", {"default": None, "replica": None})
    monkeypatch.setattr(replica, "row", lambda _, statement: places[statement])
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert asked.has(0)
    places[replica.POSITION] = ["0/200"]
    monkeypatch.setattr(time, "monotonic", lambda: now + age)
    assert asked.has(0) is is_read


@pytest.mark.parametrize("path", ["/abc1234", "/lab/on_conflict/abc1234"])
def test_a_request_that_counts_reads_the_primary(path: str) -> None:
    assert asked(path)[0] == ["default"]


@pytest.mark.parametrize(("status", "off"), [(404, False), (500, False), (503, True)])
def test_the_primary_is_asked_again_and_only_an_outage_turns_it_off(status: int, off: bool) -> None:
    places, near = asked("/api/links/abc1234", status)
    assert places == ["replica", "default"]
    assert near.off is off


@pytest.mark.django_db(transaction=True)
def test_a_frozen_replica_leaves_the_primary_time(settings: Any) -> None:
    settings.DATABASE_CONNECT_TIMEOUT = LIMIT

    def view(request: HttpRequest) -> HttpResponse:
        with connection.cursor() as cursor:
            try:
                cursor.execute("SELECT pg_sleep(%s)", [3600 if where() == "replica" else 0])
            except OperationalError:
                connection.close()
                return HttpResponse(status=503)
        return HttpResponse()

    middleware = replica.ReplicaMiddleware(view)
    middleware.replica = near = Near()
    with bounded(), deadlines.answered_within(10 * LIMIT):
        assert middleware(RequestFactory().get("/links")).status_code == 200
    assert near.off


@pytest.mark.django_db(transaction=True)
def test_a_client_that_has_written_reads_the_primary_if_the_position_is_unknown() -> None:
    connection.ensure_connection()
    connection.connection.close()  # the next statement raises InterfaceError
    middleware = replica.ReplicaMiddleware(lambda request: HttpResponse(status=201))
    cookie = middleware(RequestFactory().post("/api/links")).cookies[replica.COOKIE].value
    connection.close()
    assert replica.number(cookie) == 2**64 - 1


@pytest.mark.django_db(transaction=True)
def test_a_replica_of_another_database_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connections["replica"] = other = connections["default"].copy()
    other.settings_dict["NAME"] = "postgres"
    monkeypatch.setattr(replica, "CHECK_INTERVAL", 0)
    found = replica.Replica()
    try:
        with caplog.at_level(logging.WARNING):
            assert not any(found.has(0) for _ in range(3))
    finally:
        other.close()
        del connections["replica"]
    assert caplog.messages == ["The replica is not read: it is another database"]
