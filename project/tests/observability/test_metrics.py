"""/metrics: who may read it, and the counts of a service with two workers."""

import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.test import RequestFactory
from pytest_django import Settings

from loadtests.servers import serving
from project.tests.conftest import TIMEOUT, database

TOKEN = "a-token-of-the-metrics-test"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("", 401),
        ("Bearer x", 401),
        ("Bearer é", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"BEARER {TOKEN}", 200),
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
    assert response["Cache-Control"] == "no-store"


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_the_counts_of_all_workers_are_added_up() -> None:
    settings = {"WORKERS": "2", "SHORTURL_METRICS_TOKEN": TOKEN}
    link = '{"target_url": "https://a.example/", "key": "a"}'
    headers = {"Content-Type": "application/json"}
    token = {"Authorization": f"bearer {TOKEN}"}
    with (
        database("shorturl_metrics") as url,
        serving(DATABASE_URL=url, **settings) as service,
    ):

        def ask(method: str, path: str, body: str = "") -> tuple[int, str]:
            with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
                http.request(method, path, body, token if path == "/metrics" else headers)
                response = http.getresponse()
                return response.status, response.read().decode()

        def count(name: str) -> int:
            text = ask("GET", "/metrics")[1]
            numbers = re.findall(f"^{re.escape(name)} (.*)$", text, re.MULTILINE)
            return sum(int(float(number)) for number in numbers)

        statements = 'shorturl_statement_seconds_count{outcome="ok"}'
        assert ask("POST", "/api/links", link)[0] == 201
        before = count(statements)
        assert {ask("GET", "/a")[0] for _ in range(20)} == {302}
        assert {ask("GET", "/b")[0] for _ in range(3)} == {404}
        assert ask("POST", "/api/links", link)[0] == 409
        assert count('shorturl_responses_total{status="302",to="redirect"}') == 20
        assert count('shorturl_responses_total{status="404",to="redirect"}') == 3
        assert count('shorturl_responses_total{status="201",to="api"}') == 1
        assert count('shorturl_responses_total{status="409",to="api"}') == 1
        assert count(statements) > before
