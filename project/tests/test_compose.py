"""docker-compose.yml as it is used, with namespaces in the place of containers."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from loadtests.harness.own_proxies import PGBOUNCER
from project.tests.conftest import FILLED_IN
from project.tests.containers import TIMEOUT, Composed, composed

pytestmark = pytest.mark.exhaustive

LINK = '{"target_url": "https://target.example/"}'
OPEN = {
    "HTTPS": "off",
    "SHORTURL_PUBLIC_CREATE": "on",
    "SHORTURL_PUBLIC_STATS": "on",
    "WORKERS": "1",
}


def filled_in(copy: Path, **more: str) -> dict[str, str]:
    """Return the variables that .env has, of which Compose takes some into the file."""
    with (copy / ".env").open("a") as file:
        file.write("".join(f"{name}={value}\n" for name, value in more.items()))
    return FILLED_IN | more


def until(services: Composed, condition: Callable[[Any], bool]) -> None:
    """Wait until the figures of Locust's page are so."""
    deadline = time.monotonic() + TIMEOUT
    while not condition(json.loads(services.ask("locust-master:8089/stats/requests")[1])):
        assert time.monotonic() < deadline, services.log("locust-master")


def until_in(services: Composed, name: str, text: str) -> None:
    """Wait until a service has printed this."""
    deadline = time.monotonic() + TIMEOUT
    while text not in services.log(name):
        assert time.monotonic() < deadline, services.log(name)
        time.sleep(0.1)


def until_seen_by_prometheus(services: Composed, names: set[str]) -> None:
    """Wait until it has read the metrics of these services."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = json.loads(services.ask("prometheus:9090/api/v1/query?query=up==1")[1])
        up = {each["metric"]["instance"] for each in found["data"]["result"]}
        if up == names:
            return
        assert time.monotonic() < deadline, (up, services.log("prometheus"))
        time.sleep(0.5)


def kill(services: Composed, name: str) -> None:
    """Kill the first process of a container, and wait until nothing of it accepts connections."""
    process = services.processes[name]
    [first] = psutil.Process(process.pid).children()
    first.kill()  # and the kernel kills the others of its namespace before it has ended
    process.wait()


def rows(seen: Any) -> dict[str, str]:
    """Return what the tab of the ledger shows, by name."""
    return {row["what"]: row["value"] for row in seen["extended_stats"][0]["data"]}


def test_two_machines_behind_a_balancer_and_pgbouncer(
    tmp_path: Path, production_copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each redirect is counted once, also after one of the two was killed; Prometheus saw both."""
    if not PGBOUNCER or not shutil.which("haproxy") or not shutil.which("prometheus"):
        pytest.skip("PgBouncer, HAProxy and Prometheus are not all installed")
    copy = tmp_path_factory.mktemp("scale")
    shutil.copytree(production_copy, copy, dirs_exist_ok=True)
    settings = OPEN | {"SHORTURL_METRICS_TOKEN": "for-prometheus-alone-and-long-enough"}
    with composed(tmp_path, copy, **filled_in(copy, **settings)) as services:
        services.postgres("db")
        assert services.start("migrate").wait(90) == 0, services.log("migrate")
        for name in ("pgbouncer", "web-1", "web-2", "timer"):
            services.start(name)
        for name in ("web-1", "web-2"):
            assert services.ask(f"{name}:8000/readyz")[0] == "200"
        services.start("balancer")
        services.start("prometheus")
        status, made = services.ask("balancer:8000/api/links", LINK)
        assert status.startswith("201 ")
        key = json.loads(made)["key"]
        for name in ("balancer", "balancer", "web-1", "web-2"):
            assert services.ask(f"{name}:8000/{key}")[0] == "302 https://target.example/"
        until_seen_by_prometheus(services, {"web-1:8000", "web-2:8000"})
        kill(services, "web-2")
        for _ in range(4):
            assert services.ask(f"balancer:8000/{key}")[0] == "302 https://target.example/"
        shown = services.ask(f"web-1:8000/api/links/{key}")[1]
        assert json.loads(shown)["hits"] == 8
        for done in ("0 hits moved.", "0 answers removed.", "0 counters removed."):
            until_in(services, "timer", done)


def test_a_load_test_with_a_master_and_two_workers(
    tmp_path: Path, production_copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The page is reached from outside, a naive counter loses hits, and the report stays."""
    copy = tmp_path_factory.mktemp("load")
    shutil.copytree(production_copy, copy, dirs_exist_ok=True)
    with composed(tmp_path, copy, **filled_in(copy, WORKERS="2", THREADS="4")) as services:
        services.postgres("loadtest-db")
        services.start("loadtest-web")
        assert services.ask("loadtest-web:8000/healthz")[0] == "200"
        services.start("locust-master")
        for number in range(2):
            services.start("locust-worker", number=number)
        assert "Ledger" in services.ask("locust-master:8089/")[1]
        until(services, lambda seen: len(seen["workers"]) == 2)
        form = "user_count=8&spawn_rate=8&host=http://web:8000&strategy=naive&run_time=3"
        started = services.ask(
            "locust-master:8089/swarm", form, kind="application/x-www-form-urlencoded"
        )
        assert json.loads(started[1])["success"], started
        until(services, lambda seen: "was violated" in rows(seen)["outcome"])
        report = services.volume("reports") / "lost_update-naive.json"
        until(services, lambda _: report.exists() and report.read_text().endswith("}\n"))
        found = json.loads(report.read_text())
        assert found["lost"] > 0
