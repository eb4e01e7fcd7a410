"""Limits and quotas behind a real HAProxy: requests count once, and for their client's address."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
import pytest

from loadtests.harness.own_proxies import HAPROXY, own_haproxy
from loadtests.harness.serving import serving
from loadtests.tests.conftest import LAB, locust, result

pytestmark = pytest.mark.exhaustive

LIMIT, ASKED = 7, 60  # links a day of each network, and creates sent at once
# Addresses of this machine. The first two are of one network, a /24.
CLIENTS = ["127.0.1.1", "127.0.1.2", "127.0.2.1"]
FORGED = ["127.0.9.1", "203.0.113.7, 198.51.100.2", "not an address", ""]
OPEN = {
    "SHORTURL_PUBLIC_CREATE": "on",
    "SHORTURL_PUBLIC_LINKS_PER_DAY": str(LIMIT),
    "BEHIND_PROXY": "on",
}


def answer(
    netloc: str, method: str, path: str, *, client: str = "127.0.0.1", forged: str | None = None
) -> tuple[int, Any]:
    """Send a request from the address `client`, with a forged one if given."""
    headers = {"Content-Type": "application/json"}
    if forged is not None:
        headers["X-Forwarded-For"] = forged
    connection = HTTPConnection(netloc, timeout=30, source_address=(client, 0))
    with closing(connection):
        body = json.dumps({"target_url": "https://example.com/"}) if method == "POST" else None
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()


@pytest.fixture(scope="module")
def proxied(database_url: str) -> Iterator[str]:
    """The address of a HAProxy before a service with its lab on, and quotas."""
    if not HAPROXY:
        pytest.skip("HAProxy is not installed")
    with (
        serving(DATABASE_URL=database_url, WORKERS="2", THREADS="8", **OPEN, **LAB) as service,
        own_haproxy(service.url) as url,
    ):
        yield url


def test_its_own_503_says_that_nothing_was_processed(database_url: str) -> None:
    with serving(DATABASE_URL=database_url) as service, own_haproxy(service.url) as url:
        service.process.terminate()
        service.process.wait()
        for path in ("/spring", "/static/none"):  # each in another backend
            with closing(HTTPConnection(urlsplit(url).netloc, timeout=30)) as connection:
                connection.request("GET", path)
                response = connection.getresponse()
                found = response.status, response.headers["X-Processed"], response.read()
            assert found == (503, "no", b"Too many requests at the moment.")


def test_the_longest_target_of_an_old_link_passes(database_url: str, proxied: str) -> None:
    """New targets are shorter: 8,000 bytes when they are percent-encoded."""
    target_url = "https://example.com/" + "\N{GRINNING FACE}" * 1_980
    insert = "INSERT INTO shorturl_shorturl (key, target_url) VALUES ('long', %s)"
    with closing(psycopg2.connect(database_url)) as connection, connection:
        connection.cursor().execute(insert, [target_url])
    assert answer(urlsplit(proxied).netloc, "GET", "/long")[0] == 302


@pytest.mark.parametrize(
    ("script", "strategy", "violated"),
    [
        ("last_use", "naive", True),
        ("last_use", "combined", False),
        ("last_link", "count_then_insert", True),
        ("last_link", "reservation", False),
    ],
)
def test_limits_and_quotas_hold(
    proxied: str, tmp_path: Path, script: str, strategy: str, violated: bool
) -> None:
    asked = ["--host", proxied, "--strategy", strategy, "--reports", str(tmp_path)]
    ended = locust(script, *asked, "--users", "16", "--run-time", "3s")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = result(tmp_path, script, strategy)
    assert found["requests"] > 100
    assert bool(found["lost"]) is violated


def test_each_network_has_its_quota_despite_forged_addresses(proxied: str) -> None:
    """All at once, most with a forged X-Forwarded-For: HAProxy adds the last address."""
    netloc = urlsplit(proxied).netloc

    def create(number: int) -> tuple[str, int, Any]:
        client = CLIENTS[number % len(CLIENTS)]
        forged = [None, *FORGED][number % (len(FORGED) + 1)]
        status, body = answer(netloc, "POST", "/api/links", client=client, forged=forged)
        return client.rpartition(".")[0], status, body

    with ThreadPoolExecutor(16) as pool:
        told = list(pool.map(create, range(ASKED)))
    made = Counter((network, status) for network, status, _ in told)
    assert made == {
        ("127.0.1", 201): LIMIT,
        ("127.0.1", 429): ASKED * 2 // 3 - LIMIT,
        ("127.0.2", 201): LIMIT,
        ("127.0.2", 429): ASKED // 3 - LIMIT,
    }
    keys = [json.loads(body)["key"] for _, status, body in told if status == 201]
    assert len(set(keys)) == 2 * LIMIT
    assert {answer(netloc, "GET", f"/{key}")[0] for key in keys} == {302}
