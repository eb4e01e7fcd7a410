"""The services of docker-compose.yml at work, with namespaces in the place of containers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadtests.harness.own_proxies import PGBOUNCER
from loadtests.harness.serving import wait_until
from project.tests.containers import TIMEOUT, Composed, composed

pytestmark = pytest.mark.exhaustive

LINK = '{"target_url": "https://target.example/"}'
OPEN = {
    "HTTPS": "off",
    "SHORTURL_PUBLIC_CREATE": "on",
    "SHORTURL_PUBLIC_STATS": "on",
    "WORKERS": "1",
    "SHORTURL_METRICS_TOKEN": "for-prometheus-alone-and-long-enough",
}


def until(services: Composed, address: str, condition: Callable[[Any], bool]) -> None:
    """Wait until the JSON answer meets the condition."""
    wait_until(lambda: condition(json.loads(services.ask(address)[1])), address, TIMEOUT)


def test_two_machines_behind_a_balancer_and_pgbouncer(
    tmp_path: Path, production_copy: Path
) -> None:
    """Each redirect is counted once, also after one machine was killed; Prometheus sees both."""
    if not PGBOUNCER or not shutil.which("haproxy") or not shutil.which("prometheus"):
        pytest.skip("PgBouncer, HAProxy and Prometheus are not all installed")
    with composed(tmp_path, production_copy, **OPEN) as services:
        services.postgres("db")
        assert services.start("migrate").wait(TIMEOUT) == 0, services.log("migrate")
        for name in ("pgbouncer", "web-1", "web-2", "timer"):
            services.start(name)
        for name in ("web-1", "web-2"):
            assert services.ask(f"{name}:8000/readyz")[0] == "200"
        services.start("balancer")
        services.start("prometheus")
        status, made = services.ask("balancer:8000/api/links", LINK)
        assert status == "201"
        key = json.loads(made)["key"]
        for name in ("balancer", "balancer", "web-1", "web-2"):
            assert services.ask(f"{name}:8000/{key}")[0] == "302 https://target.example/"

        def both_are_up(found: Any) -> bool:
            up = {each["metric"]["instance"] for each in found["data"]["result"]}
            return up == {"web-1:8000", "web-2:8000"}

        until(services, "prometheus:9090/api/v1/query?query=up==1", both_are_up)
        services.kill("web-2")
        for _ in range(4):
            assert services.ask(f"balancer:8000/{key}")[0] == "302 https://target.example/"
        assert json.loads(services.ask(f"web-1:8000/api/links/{key}")[1])["hits"] == 8
        # The last command of the timer.
        wait_until(lambda: "0 counters removed." in services.log("timer"), "timer", TIMEOUT)
        for done in ("0 rows of visits rolled up.", "0 answers removed."):
            assert done in services.log("timer")


def test_a_load_test_with_a_master_and_two_workers(tmp_path: Path, production_copy: Path) -> None:
    """The page is reached from outside, a naive counter loses hits, and the report stays."""
    with composed(tmp_path, production_copy, WORKERS="2", THREADS="4") as services:
        services.postgres("loadtest-db")
        services.start("loadtest-web")
        assert services.ask("loadtest-web:8000/healthz")[0] == "200"
        services.start("locust-master")
        for number in range(2):
            services.start("locust-worker", number=number)
        assert "Ledger" in services.ask("locust-master:8089/")[1]
        figures = "locust-master:8089/stats/requests"
        until(services, figures, lambda seen: len(seen["workers"]) == 2)
        form = "user_count=8&spawn_rate=8&host=http://web:8000&strategy=naive&run_time=3"
        started = services.ask(
            "locust-master:8089/swarm", form, kind="application/x-www-form-urlencoded"
        )
        assert json.loads(started[1])["success"], started

        def is_violated(seen: Any) -> bool:
            ledger = {row["what"]: row["value"] for row in seen["extended_stats"][0]["data"]}
            return "was violated" in ledger["outcome"]

        until(services, figures, is_violated)
        report = services.volume("reports") / "lost_update-naive.json"
        until(services, figures, lambda _: report.exists() and report.read_text().endswith("}\n"))
        assert json.loads(report.read_text())["lost"] > 0
