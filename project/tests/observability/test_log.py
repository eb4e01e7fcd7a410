"""The log, as lines and as JSON, and the id of a request that a proxy has sent."""

import asyncio
import json
import logging
from collections.abc import Callable
from io import StringIO
from logging.config import DictConfigurator
from unittest.mock import AsyncMock, Mock
from urllib.parse import urlencode

import psycopg2
import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client

import project.wsgi  # noqa: F401 - at its import Django configures the log
from project.serving.redirects import Redirects

FORM = "application/x-www-form-urlencoded"
ReadLog = Callable[[], list[str]]


@pytest.fixture
def read_log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ReadLog:
    """Return a function that returns the lines of the log since its last call, in one format."""
    configured = DictConfigurator(settings.LOGGING)
    handler = logging.StreamHandler(StringIO())
    formatters, filters = configured.config["formatters"], configured.config["filters"]
    handler.setFormatter(configured.configure_formatter({**formatters[request.param]}))
    for name in configured.config["handlers"]["console"]["filters"]:
        handler.addFilter(configured.configure_filter({**filters[name]}))
    for logger in (logging.getLogger(), logging.getLogger("django")):
        monkeypatch.setattr(logger, "handlers", [handler])

    def read_log() -> list[str]:
        lines = handler.stream.getvalue().splitlines()
        handler.setStream(StringIO())
        return lines

    return read_log


in_each_format = pytest.mark.parametrize("read_log", ["line", "json"], indirect=True)


@in_each_format
@pytest.mark.django_db
def test_what_any_client_can_do_is_not_logged(client: Client, read_log: ReadLog) -> None:
    too_many = urlencode([("a", "")] * 1_001)
    assert client.post("/", too_many, content_type=FORM).status_code == 413
    assert client.get("/", headers={"host": "other.example"}).status_code == 400
    assert client.get("/no/such/page").status_code == 404
    assert read_log() == []


@in_each_format
@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/links/spring", "/readyz"])
def test_an_outage_of_the_database_is_one_line(
    client: Client, read_log: ReadLog, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def raise_outage(*_: object, **__: object) -> None:
        raise OperationalError("refused")

    monkeypatch.setattr("shorturl.api.links.find_link", raise_outage)
    monkeypatch.setattr("project.observability.health.find_missing_migrations", raise_outage)
    monkeypatch.setitem(connection.settings_dict, "HOST", "db.example")
    monkeypatch.setitem(connection.settings_dict, "PORT", 5433)
    assert client.get(path).status_code == 503
    (line,) = read_log()
    assert "db.example:5433" in line
    assert "refused" in line
    assert path in line
    # By the logger each kind of error can be counted.
    assert ("unavailable.OperationalError" in line) == path.startswith("/api")
    assert ("WARNING" in line) == (path == "/readyz")


@pytest.mark.parametrize("read_log", ["json"], indirect=True)
def test_an_outage_that_redirects_meet_is_one_line_with_the_id_of_the_first(
    read_log: ReadLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hits share a statement, and so its error; another one meets the next error."""
    monkeypatch.setitem(connection.settings_dict, "HOST", "db.example")
    redirects = Redirects(None)
    shared = psycopg2.OperationalError("lost")
    errors = [shared, shared, psycopg2.OperationalError("refused")]
    redirects.counter = Mock(count=AsyncMock(side_effect=errors))

    async def follow(number: int) -> None:
        headers = [(b"host", b"localhost"), (b"x-request-id", b"id-%d" % number)]
        scope = {"type": "http", "method": "GET", "path": "/spring", "client": None}
        await redirects({**scope, "headers": headers}, AsyncMock(), AsyncMock())

    for number in range(3):
        asyncio.run(follow(number))
    records = [json.loads(line) for line in read_log()]
    assert [record["request_id"] for record in records] == ["id-0", "id-2"]
    messages = [
        f"GET /spring: the database at db.example:5432 is unavailable: {error}"
        for error in ("lost", "refused")
    ]
    assert [record["message"] for record in records] == messages


@in_each_format
@pytest.mark.django_db
def test_a_bug_is_logged_once_with_its_traceback(
    client: Client, read_log: ReadLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr("shorturl.api.links.find_link", fail)
    client.raise_request_exception = False
    assert client.get("/api/links/spring").status_code == 500
    written = "\n".join(read_log())
    assert written.count("RuntimeError: a mistake") == 1
    assert "Traceback" in written


@pytest.mark.parametrize("read_log", ["json"], indirect=True)
@pytest.mark.django_db
def test_a_message_is_one_line_of_json_with_the_id_of_the_request(
    client: Client, read_log: ReadLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.observability.health.find_missing_migrations", lambda: "a.0001")
    invalid = ["a b", "a\x01", "\x7f", "\xe9", "x" * 129]
    for sent in ("of-a.proxy_1", *invalid):
        client.get("/readyz", headers={"X-Request-Id": sent})
        (line,) = read_log()
        record = json.loads(line)
        assert record["request_id"] == ("" if sent in invalid else sent)
        assert record["message"] == "/readyz: migrations are not applied: a.0001"
    logging.getLogger("django").warning("no\n%s", "x")
    (line,) = read_log()  # although the message has a line break
    record = json.loads(line)
    assert record.keys() == {"time", "level", "logger", "message", "request_id"}
    assert (record["logger"], record["level"]) == ("django", "WARNING")
    assert record["message"] == "no\nx"
