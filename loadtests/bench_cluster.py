"""Microseconds of processor time for a redirect, on the PostgreSQL or the cluster of DATABASE_URL.

    DATABASE_URL=postgres://… DATABASE_CITUS=on .venv/bin/python -m loadtests.bench_cluster

All nodes have to be on this machine, and nothing else may run: what is used besides the service and
wrk is taken for that of PostgreSQL. The database may have no links yet. Those of the benchmark
stay in it. The exit code is 1 if a redirect was not counted, or counted twice.
"""

import os
import sys
from typing import Any

import psutil
from django.db.backends.postgresql.base import DatabaseWrapper

from loadtests import measuring
from loadtests.measuring import FILL, RANDOM_KEYS
from loadtests.servers import NO_REFUSALS, serving

LINKS = 10_000
CONNECTIONS = (16, 64, 256)
SECONDS = 5


class GivenPostgres:
    """The PostgreSQL of DATABASE_URL, whose processes may be in containers."""

    def connect(self, _database: str) -> Any:
        return DatabaseWrapper.Database.connect(os.environ["DATABASE_URL"])

    def processes(self) -> list[psutil.Process]:
        return []


def read_busy_seconds() -> float:
    """Return the processor time of the whole machine so far."""
    times = psutil.cpu_times()
    kinds = ("user", "nice", "system", "irq", "softirq")
    return float(sum(getattr(times, kind, 0.0) for kind in kinds))


def main() -> int:
    """Measure, print the table, and return the exit code."""
    if not os.environ.get("DATABASE_URL"):
        sys.exit("bench_cluster: set DATABASE_URL, such as postgres://shorturl@127.0.0.1/bench")
    postgres = GivenPostgres()
    rows, is_exact = [], True
    with serving(**NO_REFUSALS) as service:
        if measuring.execute(postgres, "SELECT count(*) FROM shorturl_shorturl"):
            sys.exit("bench_cluster: the database of DATABASE_URL has links: use an empty one")
        measuring.execute(postgres, FILL.format(first=1, last=LINKS))
        script = RANDOM_KEYS.format(links=LINKS)
        for connections in CONNECTIONS:
            measuring.measure(postgres, service, script, connections, 1)  # all is loaded then
            before = read_busy_seconds()
            measured = measuring.measure(postgres, service, script, connections, SECONDS)
            used = read_busy_seconds() - before - measured.result.processor_seconds
            of_service = measured.processor_seconds["service"]
            redirect = measured.result.acknowledged / 1e6
            figures = [measured.per_second, of_service / redirect, (used - of_service) / redirect]
            rows.append([f"{connections}", *(f"{figure:,.0f}" for figure in figures)])
            is_exact = is_exact and measured.is_exact
    headings = ["connections", "redirects per second", "service, µs", "PostgreSQL, µs"]
    print(measuring.format_table(rows, headings))
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
