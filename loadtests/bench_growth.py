"""How the cost of a redirect grows with links, connections and workers.

    .venv/bin/python -m loadtests.bench_growth    some three minutes, and 5 GB of disk
    DATABASE_URL=postgres://… DATABASE_CITUS=on .venv/bin/python -m loadtests.bench_growth

Each row of the table differs in one number from BASE. With DATABASE_URL the rows differ in the
connections alone. All nodes of that PostgreSQL or cluster have to be on this machine, without
another PostgreSQL. It may have no links yet, and keeps those of the benchmark.

wrk follows random links without pause, with the service's own limits. The exit code is 1 if a
redirect was not counted or counted twice, if its visit was not recorded, or if an answer took
longer than the limits allow.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import psutil
from django.db.backends.postgresql.base import DatabaseWrapper

from loadtests import measuring
from loadtests.measuring import FILL, RANDOM_KEYS, Measurement
from loadtests.servers import OwnPostgres, own_postgres, serving

SECONDS = 5
# A hit waits so long for its statement, and the statement for a lock and for its answer.
MAX_ANSWER_SECONDS = 0.5 + 12.0  # QUEUE_TIMEOUT_MS, and DATABASE_STATEMENT_TIMEOUT + 2 seconds
# In one statement, as the hits of clients that have left may still be counted. A statement counts a
# hit and records its visit together.
HITS_WITHOUT_VISIT = """
    SELECT counted.hits - recorded.visits
    FROM (SELECT sum(hits)::bigint AS hits FROM shorturl_shorturl) AS counted,
        (SELECT coalesce(sum(jsonb_array_length(kinds)), 0) AS visits FROM shorturl_recentvisits)
            AS recorded
"""


class Case(NamedTuple):
    """A load, and what it meets."""

    links: int = 100_000
    connections: int = 64
    workers: int = 2


BASE = Case()
CASES = [
    *(BASE._replace(links=links) for links in (1_000, 100_000)),
    *(BASE._replace(connections=connections) for connections in (16, 256, 1_024)),
    *(BASE._replace(workers=workers) for workers in (1, 4)),
    BASE._replace(links=10_000_000),  # the last one, as links are only added
]
CASES_OF_GIVEN = [Case(links=10_000, connections=connections) for connections in (16, 64, 256)]


class GivenPostgres:
    """The PostgreSQL of DATABASE_URL, whose processes may be in containers of this machine."""

    def __init__(self, url: str) -> None:
        self.url = url

    def connect(self, _database: str) -> Any:
        return DatabaseWrapper.Database.connect(self.url)

    def processes(self) -> list[psutil.Process]:
        all_processes = psutil.process_iter(["name"])
        return [process for process in all_processes if process.info["name"] == "postgres"]


def add_links(postgres: OwnPostgres | GivenPostgres, there: int, number: int) -> None:
    """Add links to those that are `there` until there are `number`, with the keys k1, k2, …"""
    if measuring.execute(postgres, "SELECT count(*) FROM shorturl_shorturl") != there:
        sys.exit("bench_growth: the database of DATABASE_URL has links: use an empty one")
    if there < number:
        print(f"bench_growth: {number:,} links", file=sys.stderr)
        measuring.execute(postgres, FILL.format(first=there + 1, last=number))
        measuring.execute(postgres, "VACUUM (FREEZE, ANALYZE) shorturl_shorturl")


def measure_cases(
    postgres: OwnPostgres | GivenPostgres, cases: Sequence[Case]
) -> Iterator[tuple[Case, Measurement]]:
    """Measure each case, and yield it with its measurement."""
    links = 0
    for case in cases:
        with serving(DATABASE_URL=postgres.url, WORKERS=str(case.workers)) as service:
            add_links(postgres, links, case.links)
            links = case.links
            script = RANDOM_KEYS.format(links=case.links)
            measuring.measure(postgres, service, script, case.connections, 1)  # all is loaded then
            yield case, measuring.measure(postgres, service, script, case.connections, SECONDS)


def main() -> int:
    """Measure, print the table, and return the exit code."""
    about = measuring.describe_machine()
    rows, failed = [], False
    if given := os.environ.get("DATABASE_URL"):
        print("bench_growth: the database of DATABASE_URL gets tables and links", file=sys.stderr)
    with nullcontext(GivenPostgres(given)) if given else own_postgres() as postgres:
        for case, measured in measure_cases(postgres, CASES_OF_GIVEN if given else CASES):
            without_visit = measuring.execute(postgres, HITS_WITHOUT_VISIT)
            is_exact = measured.is_exact and without_visit == 0
            if not is_exact:
                print(f"MISCOUNTED: {case}, {measured}, {without_visit} hits without a visit")
            result = measured.result
            failed |= not is_exact or result.longest > MAX_ANSWER_SECONDS
            load_share = result.processor_seconds / SECONDS / (os.cpu_count() or 1)
            rows.append(
                [
                    *(f"{number:,}" for number in case),
                    f"{measured.per_second:,.0f}",
                    *(f"{microseconds:,.0f}" for microseconds in measured.microseconds.values()),
                    f"{load_share:.0%}",
                    f"{1_000 * result.longest:,.0f}",
                    f"{result.refused:,}",
                    "yes" if is_exact else "NO",
                ]
            )
    headings = ["links", "connections", "workers", "redirects per second"]
    headings += ["service, µs", "PostgreSQL, µs", "wrk's share of the processors"]
    headings += ["longest answer, ms", "refused", "exact"]
    print(measuring.format_table(rows, headings))
    print(f"\nMeasured by `python -m loadtests.bench_growth`: {about}.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
