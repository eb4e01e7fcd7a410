"""/metrics of a service with two workers, one of which is killed."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from django.test import Client

from loadtests.harness.serving import ROOT, serving
from project.observability import metrics
from project.tests.serving.test_gunicorn import database
from project.tests.serving.test_unavailable import TIMEOUT

TOKEN = "a-token-of-the-test"
ADMITTED = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
Ask = Callable[..., tuple[HTTPResponse, str]]


@pytest.fixture
def served(transactional_db: None) -> Iterator[tuple[Ask, int]]:
    """Yield how to ask a service, and the process of its master."""
    with (
        database("shorturl_metrics") as url,
        serving(DATABASE_URL=url, WORKERS="2", SHORTURL_METRICS_TOKEN=TOKEN) as service,
    ):

        def ask(method: str, path: str, body: str = "", **headers: str) -> tuple[HTTPResponse, str]:
            with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
                http.request(method, path, body, headers)
                response = http.getresponse()
                return response, response.read().decode()

        yield ask, service.process.pid


def counted(ask: Ask, name: str) -> int:
    """Return the sum of what is counted by that name with these labels."""
    _, text = ask("GET", "/metrics", **ADMITTED)
    return sum(int(float(n)) for n in re.findall(f"^{re.escape(name)} (.*)$", text, re.MULTILINE))


def test_all_workers_are_added_up_for_who_has_the_token(served: tuple[Ask, int]) -> None:
    ask, master = served
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer é"}):
        response, text = ask("GET", "/metrics", **headers)
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert text == "Send SHORTURL_METRICS_TOKEN as a bearer token.\n"

    assert (
        ask("POST", "/api/links", '{"target_url": "https://a.example/", "key": "a"}', **JSON)[
            0
        ].status
        == 201
    )
    for _ in range(20):
        assert ask("GET", "/a")[0].status == 302
    for _ in range(3):
        assert ask("GET", "/b")[0].status == 404
    ask("POST", "/api/links", '{"target_url": "https://a.example/", "key": "a"}', **JSON)
    redirected = 'shorturl_responses_total{status="302",to="redirect"}'
    assert counted(ask, redirected) == 20
    assert counted(ask, 'shorturl_responses_total{status="404",to="redirect"}') == 3
    assert counted(ask, 'shorturl_responses_total{status="201",to="api"}') == 1
    # Somebody else has the key: the INSERT that adds nothing is the collision.
    assert counted(ask, 'shorturl_statements_total{outcome="no rows",verb="INSERT"}') == 1
    # The statement of a redirect begins with WITH and ends in a SELECT.
    assert counted(ask, 'shorturl_statements_total{outcome="rows",verb="SELECT"}') >= 20
    assert counted(ask, "shorturl_connections_in_use") == 0

    # A worker that ends takes nothing with it, and leaves the files of the others alone.
    ended, other = psutil.Process(master).children()
    ended.send_signal(signal.SIGTERM)
    psutil.wait_procs([ended])
    assert ask("GET", "/a")[0].status == 302
    assert counted(ask, redirected) == 21
    assert other.is_running()


def test_the_dashboard_shows_what_there_is() -> None:
    shown = (ROOT / "deploy/grafana/dashboards/shorturl.json").read_text()
    families = (metrics.RESPONSES, metrics.REFUSED, metrics.STATEMENTS, metrics.SECONDS)
    there = {sample for each in (*families, metrics.IN_USE) for sample in names(each)}
    assert set(re.findall("shorturl_[a-z_]+", shown)) <= there
    assert "shorturl_refused_total" in shown


def names(metric: Any) -> set[str]:
    """Return the names under which Prometheus has a metric."""
    (family,) = metric.collect()
    ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    return {family.name + end for end in ends[family.type]}


@pytest.mark.django_db
def test_they_are_off_by_default(client: Client) -> None:
    assert client.get("/metrics").status_code == 404
