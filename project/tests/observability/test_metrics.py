"""/metrics: who may read it, and the counts of a service with two workers."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import RequestFactory
from prometheus_client import REGISTRY
from pytest_django import Settings

from loadtests.servers import serving
from project.tests.conftest import ask, database

TOKEN = "a-token-of-the-metrics-test"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("", 401),
        ("Bearer é", 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_the_metrics_need_the_token(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path, sent: str, status: int
) -> None:
    from project.observability.metrics import show_metrics

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    settings.SHORTURL_METRICS_TOKEN = TOKEN
    response = show_metrics(RequestFactory().get("/metrics", headers={"Authorization": sent}))
    assert response.status_code == status
    assert response.headers.get("WWW-Authenticate") == (None if status == 200 else "Bearer")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sql", "outcome"), [("SELECT 1", "ok"), ("SELECT 1 / 0", "22012"), ("SELECT x", "42703")]
)
def test_a_statement_is_counted_by_its_outcome(sql: str, outcome: str) -> None:
    from project.observability.metrics import time_statement

    name, labels = "shorturl_statement_seconds_count", {"outcome": outcome}
    before = REGISTRY.get_sample_value(name, labels) or 0
    with (
        suppress(DatabaseError),
        transaction.atomic(),
        connection.execute_wrapper(time_statement),
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
    assert REGISTRY.get_sample_value(name, labels) == before + 1


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/a", "redirect"),
        ("/api/links", "api"),
        ("/", "page"),
        ("/a/stats", "page"),
        ("/a+", "page"),
    ],
)
def test_a_response_is_counted_by_what_answers_the_path_and_by_its_status(
    path: str, to: str
) -> None:
    from project.observability.metrics import count_response

    labels = {"to": to, "status": "418"}
    before = REGISTRY.get_sample_value("shorturl_responses_total", labels) or 0
    count_response(path, 418)
    assert REGISTRY.get_sample_value("shorturl_responses_total", labels) == before + 1


def count(url: str, name: str) -> int:
    """Return the sum of a metric's lines."""
    answer = ask(url, "GET", "/metrics", headers={"Authorization": f"bearer {TOKEN}"})
    assert answer.headers["cache-control"] == "no-store"
    numbers = re.findall(f"^{re.escape(name)} (.*)$", answer.body.decode(), re.MULTILINE)
    return sum(int(float(number)) for number in numbers)


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_the_counts_of_all_workers_are_added_up() -> None:
    settings = {"WORKERS": "2", "SHORTURL_METRICS_TOKEN": TOKEN}
    link = '{"target_url": "https://a.example/", "key": "a"}'
    create = ("POST", "/api/links", link, {"Content-Type": "application/json"})
    with database("shorturl_metrics") as own, serving(DATABASE_URL=own, **settings) as service:
        url = service.url
        assert ask(url, *create).status == 201
        assert {ask(url, "GET", "/a").status for _ in range(20)} == {302}
        assert count(url, 'shorturl_responses_total{status="302",to="redirect"}') == 20
