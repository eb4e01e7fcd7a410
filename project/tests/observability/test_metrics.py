"""/metrics of a service with two workers, one of which is killed."""

import re
import signal
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

import psutil
import pytest
from django.test import Client

from loadtests.harness.serving import ROOT, serving
from project.observability import metrics
from project.tests.serving.test_gunicorn import database
from project.tests.serving.test_unavailable import TIMEOUT

TOKEN = "a-token-of-the-test"


@pytest.mark.exhaustive
def test_the_counts_of_all_workers_are_added_up_and_need_the_token(transactional_db: None) -> None:
    settings = {"WORKERS": "2", "SHORTURL_METRICS_TOKEN": TOKEN}
    link = '{"target_url": "https://a.example/", "key": "a"}'
    with (
        database("shorturl_metrics") as url,
        # A worker that starts at the end may miss SIGTERM, and is killed after this time.
        serving(ROOT, "--graceful-timeout=3", DATABASE_URL=url, **settings) as service,
    ):

        def ask(method: str, path: str, body: str = "", **headers: str) -> tuple[HTTPResponse, str]:
            with closing(HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)) as http:
                http.request(method, path, body, headers)
                response = http.getresponse()
                return response, response.read().decode()

        def status(method: str, path: str, body: str = "") -> int:
            return ask(method, path, body, **{"Content-Type": "application/json"})[0].status

        def counted(name: str) -> int:
            _, text = ask("GET", "/metrics", Authorization=f"Bearer {TOKEN}")
            found = re.findall(f"^{re.escape(name)} (.*)$", text, re.MULTILINE)
            return sum(int(float(number)) for number in found)

        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer é"}):
            response, text = ask("GET", "/metrics", **headers)
            assert response.status == 401
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert text == "Send SHORTURL_METRICS_TOKEN as a bearer token.\n"

        # Migrations of an empty database insert no rows, either.
        no_rows = 'shorturl_statements_total{outcome="no rows",verb="INSERT"}'
        before = counted(no_rows)
        assert status("POST", "/api/links", link) == 201
        assert {status("GET", "/a") for _ in range(20)} == {302}
        assert {status("GET", "/b") for _ in range(3)} == {404}
        assert status("POST", "/api/links", link) == 409
        redirected = 'shorturl_responses_total{status="302",to="redirect"}'
        assert counted(redirected) == 20
        assert counted('shorturl_responses_total{status="404",to="redirect"}') == 3
        assert counted('shorturl_responses_total{status="201",to="api"}') == 1
        # The key is taken: the INSERT of no rows is the collision.
        assert counted(no_rows) == before + 1
        # The statement of a redirect begins with WITH and ends in a SELECT.
        assert counted('shorturl_statements_total{outcome="rows",verb="SELECT"}') >= 20
        assert counted("shorturl_connections_in_use") == 0

        # The end of a worker removes no counts, also not those of the others.
        ended, other = psutil.Process(service.process.pid).children()
        ended.send_signal(signal.SIGTERM)
        psutil.wait_procs([ended])
        assert status("GET", "/a") == 302
        assert counted(redirected) == 21
        assert other.is_running()


def test_the_dashboard_shows_existing_metrics() -> None:
    shown = (ROOT / "deploy/grafana/dashboards/shorturl.json").read_text()
    ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    kept = (metrics.RESPONSES, metrics.REFUSED, metrics.STATEMENTS, metrics.SECONDS, metrics.IN_USE)
    families = [family for each in kept for family in each.collect()]
    there = {family.name + end for family in families for end in ends[family.type]}
    assert set(re.findall("shorturl_[a-z_]+", shown)) <= there
    assert "shorturl_refused_total" in shown


@pytest.mark.django_db
def test_they_are_off_by_default(client: Client) -> None:
    assert client.get("/metrics").status_code == 404
