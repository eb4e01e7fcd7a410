"""Many creates in one request: what each costs, and two for the same keys in opposite orders.

    python -m benchmarks.bulk_creates        half a minute; needs no wrk

The service runs with two workers and a PostgreSQL of its own. One client creates links singly and
in bulk; then several ask at the same time for the same custom keys, half of them in the opposite
order, round after round with new keys. The exit code is 1 when PostgreSQL finds a deadlock, or when
a key is not created, or twice; on a busy machine a request may wait too long for another one, and
gets a 503.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import django
import psutil
from tabulate import tabulate

SINGLE, BULK = 1_000, 1_000  # links created one by one, and in one request
BULKS, ROUNDS, CLIENTS = 10, 10, 8
TIMEOUT = 60  # seconds of a request, many times what it takes


class KeptConnection:
    """A connection to the service, which is kept."""

    def __init__(self, url: str) -> None:
        self.connection = HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)

    def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        """Return the status and the content of the answer."""
        self.connection.request(
            "POST", path, json.dumps(body), {"Content-Type": "application/json"}
        )
        with self.connection.getresponse() as response:
            return response.status, json.loads(response.read())


def main() -> int:
    """Measure, and print a table and a line; return the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    django.setup()
    # These need Django to be set up.
    from benchmarks import processor
    from loadtests.harness.comparison import machine
    from loadtests.harness.own_postgres import own_postgres
    from loadtests.harness.serving import NO_REFUSALS, serving

    settings = {"WORKERS": "2", "THREADS": "8", "SHORTURL_LAB": "off", **NO_REFUSALS}
    with own_postgres() as postgres, serving(DATABASE_URL=postgres.url, **settings) as service:
        server = psutil.Process(int((postgres.data / "postmaster.pid").read_text().split()[0]))

        def spent() -> float:
            sessions = processor.used((each.pid for each in server.children()), name="postgres")
            return processor.of_workers(service.process.pid).total() + sessions.total()

        rows = []
        client = KeptConnection(service.url)
        for name, requests, links in ("single", SINGLE, 1), ("bulk", BULKS, BULK):
            started, before = time.monotonic(), spent()
            for number in range(requests):
                create(client, [f"https://example.com/{number}/{link}" for link in range(links)])
            took, used = time.monotonic() - started, spent() - before
            made = requests * links
            rows.append([name, f"{made:,}", f"{1e6 * used / made:,.0f}", f"{made / took:,.0f}"])
        statuses, wrong = crossed(service.url)
        deadlocks = postgres.log.read_text().count("deadlock detected")
    print(tabulate(rows, ["", "links", "processor µs of a link", "links/s"], tablefmt="pipe"))
    print(
        f"\n{ROUNDS} rounds of {CLIENTS} requests for the same {BULK:,} keys, half in each order:"
    )
    entries = ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
    print(f"{entries}; {wrong} of {ROUNDS * BULK:,} keys wrong; {deadlocks} deadlocks.")
    print(f"\n{machine()}, load average {os.getloadavg()[0]:.1f}.")
    return 1 if wrong or deadlocks else 0


def create(client: KeptConnection, targets: list[str]) -> None:
    """Create one link, or several in one request."""
    links = [{"target_url": target} for target in targets]
    path, body = (
        ("/api/links", links[0]) if len(links) == 1 else ("/api/links/bulk", {"links": links})
    )
    status, content = client.post(path, body)
    if status != 201:
        raise SystemExit(f"bulk_creates: {status} {content}")


def crossed(url: str) -> tuple[dict[str, int], int]:
    """Ask for the same keys in both orders; return the entries by status, and how many are wrong.

    A request that was not answered entry by entry counts for all of its entries.
    """
    clients = [KeptConnection(url) for _ in range(CLIENTS)]
    statuses: Counter[str] = Counter()
    wrong = 0
    for number in range(ROUNDS):
        keys = [f"r{number}-{key}" for key in range(BULK)]
        winners = one_round(clients, keys, statuses)
        wrong += sum(winners[key] != 1 for key in keys)
    return dict(statuses), wrong


def one_round(
    clients: list[KeptConnection], keys: list[str], statuses: "Counter[str]"
) -> "Counter[str]":
    """Have all clients ask for the keys at once; add up the statuses, return how often each won."""
    winners: Counter[str] = Counter()
    together = threading.Barrier(len(clients))

    def ask(client: KeptConnection, order: list[str]) -> None:
        links = [{"target_url": "https://example.com/", "key": key} for key in order]
        together.wait(TIMEOUT)
        status, content = client.post("/api/links/bulk?atomic=false", {"links": links})
        items = content.get("items") or [{"status": status}] * len(order)
        for key, item in zip(order, items, strict=True):
            statuses[str(item["status"])] += 1
            winners[key] += item["status"] == 201

    threads = [
        threading.Thread(target=ask, args=[client, keys[:: 1 - 2 * (each % 2)]])
        for each, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return winners


if __name__ == "__main__":
    sys.exit(main())
