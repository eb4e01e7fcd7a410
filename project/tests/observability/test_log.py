"""The log. No test waits for the interval: each calls sum_up()."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from io import StringIO
from logging.config import DictConfigurator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import Client

from project.observability import log
from project.observability.request_id import RequestIdFilter, WithRequestId
from shorturl import following

FORM = "application/x-www-form-urlencoded"
Lines = Callable[[], list[str]]


@pytest.fixture
def handler() -> Iterator[log.SummingHandler]:
    handler = log.SummingHandler(StringIO())
    handler.setFormatter(log.LineFormatter("{levelname} {name}: {message}", style="{"))
    loggers = [logging.getLogger(), logging.getLogger("django")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)
    handler.close()


@pytest.fixture
def lines(handler: log.SummingHandler) -> Lines:
    """Return a function that returns the lines written since its last call."""

    def lines() -> list[str]:
        written: list[str] = handler.stream.getvalue().splitlines()  # type: ignore[attr-defined]
        handler.setStream(StringIO())
        return written

    return lines


def test_the_first_is_written_and_the_others_are_summed_up(
    handler: log.SummingHandler, lines: Lines
) -> None:
    logger = logging.getLogger("project.test")
    for number in range(4):
        logger.warning("away: %s", number)
    assert lines() == ["WARNING project.test: away: 0"]
    handler.sum_up()
    assert lines() == ["WARNING project.test: away: 3 (the newest of 3 like it in 10 s)"]
    # The next one still belongs to the flood. After an interval without one, it is a first one.
    logger.warning("away: %s", "100%")
    assert lines() == []
    handler.sum_up()
    assert lines() == ["WARNING project.test: away: 100% (the newest of 1 like it in 10 s)"]
    handler.sum_up()
    logger.warning("away: %s", 5)
    assert lines() == ["WARNING project.test: away: 5"]
    # What was not summed up is written at the end.
    logger.warning("away: %s", 6)
    handler.close()
    assert lines() == ["WARNING project.test: away: 6 (the newest of 1 like it in 10 s)"]
    assert handler.timer is not None
    assert handler.timer.finished.is_set()


def test_exceptions_of_different_lines_are_different(lines: Lines) -> None:
    def one(value: str) -> int:
        return int(value)

    def other(value: str) -> int:
        return int(value)

    for mistake in (one, other, one):
        try:
            mistake("x")
        except ValueError:
            logging.getLogger("project.test").exception("failed")
    assert sum(line.startswith("ERROR") for line in lines()) == 2


def test_the_number_of_kinds_is_bounded(handler: log.SummingHandler, lines: Lines) -> None:
    for number in range(log.MOST_KINDS * 3):
        logging.getLogger("project.test").warning(f"each in different words: {number}")
    assert len(lines()) == log.MOST_KINDS + 1
    assert len(handler.repeated) == log.MOST_KINDS + 1
    handler.sum_up()
    (line,) = lines()
    assert line.endswith(f"(the newest of {log.MOST_KINDS * 2 - 1} like it in 10 s)")


@pytest.mark.django_db
def test_too_many_fields_are_one_line(client: Client, lines: Lines) -> None:
    body = urlencode([("a", "")] * 1_001)
    assert client.post("/", body, content_type=FORM).status_code == 413
    (line,) = lines()
    assert line.startswith("ERROR django.security.TooManyFieldsSent: The number of GET/POST param")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/spring", "/api/links/spring", "/readyz"])
def test_an_outage_of_the_database_is_one_line(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Even if the driver's message has several lines."""

    def away(*_: object, **__: object) -> None:
        raise OperationalError("refused\n\tIs it running?\n")

    monkeypatch.setattr(following, "follow", away)
    monkeypatch.setattr("shorturl.api.links.existing", away)
    monkeypatch.setattr("project.observability.health.MigrationExecutor", away)
    assert client.get(path).status_code == 503
    (line,) = lines()
    assert line.endswith(": refused Is it running?")
    assert path in line


@pytest.mark.django_db
def test_a_bug_is_logged_once_with_its_traceback(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr("shorturl.api.links.existing", fail)
    client.raise_request_exception = False
    assert client.get("/api/links/spring").status_code == 500
    written = lines()
    assert written[0] == "ERROR shorturl.api.error_responses: GET /api/links/spring failed"
    assert written[-1] == "RuntimeError: a mistake"
    assert sum(line.startswith("ERROR") for line in written) == 1


def test_json_has_the_id_of_the_response(handler: log.SummingHandler, lines: Lines) -> None:
    configured = DictConfigurator(settings.LOGGING)
    handler.setFormatter(
        configured.configure_formatter({**configured.config["formatters"]["json"]})
    )
    handler.addFilter(RequestIdFilter())

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        try:
            raise LookupError("lost\nlines")
        except LookupError:
            logging.getLogger("project.test").exception("no\n%s", "x")
        start_response("503 Service Unavailable", [])
        return []

    ids: list[str] = []
    for sent in ("of-a.proxy_1", "no id\r\nX: y", "x" * 65, ""):
        WithRequestId(application)(
            {"HTTP_X_REQUEST_ID": sent},
            lambda status, headers: ids.append(dict(headers)["X-Request-ID"]),
        )
    first = json.loads(lines()[0])
    assert first.keys() == {"time", "level", "logger", "message", "request_id", "exc_info"}
    assert (first["logger"], first["message"]) == ("project.test", "no\nx")
    assert "LookupError: lost" in first["exc_info"]
    assert first["request_id"] == ids[0] == "of-a.proxy_1"
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids[1:])
    assert len(set(ids)) == 4
