"""Two services on one database, like two machines: they share only PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psutil
import pytest

from loadtests.faults.traffic import Traffic, running
from loadtests.harness.lab_api import Lab
from loadtests.harness.own_postgres import OwnPostgres, own_postgres
from loadtests.harness.result import LoadResult
from loadtests.harness.serving import RunningService, serving
from loadtests.tests.conftest import LAB

pytestmark = pytest.mark.exhaustive

ENOUGH = 200  # redirects
CREATES = 60  # of the 62 keys that a key of one character can be


def started(postgres: OwnPostgres, stack: ExitStack) -> list[RunningService]:
    """Start both at once on an empty database, which both migrate."""
    with ThreadPoolExecutor() as pool:
        ways = [serving(DATABASE_URL=postgres.url, THREADS="4", **LAB) for _ in range(2)]
        return [*pool.map(stack.enter_context, ways)]


def kill(service: RunningService) -> None:
    """Kill a service with all its workers, like a machine that loses its power."""
    master = psutil.Process(service.process.pid)
    for process in [master, *master.children()]:
        process.kill()
    service.process.wait()


def until_followed(traffic: Traffic, redirects: int) -> None:
    """Wait until so many redirects were acknowledged."""
    while not traffic.stopped.wait(0.02):
        with traffic.lock:
            if traffic.ledger.redirects.total() >= redirects:
                return


def harm(result: LoadResult) -> dict[str, int]:
    """Return the counts of violations that are not zero."""
    counts = {name: getattr(result, name) for name in ("lost", "doubled", "stolen", "missing")}
    return {name: count for name, count in counts.items() if count}


def test_counts_are_exact_and_no_key_is_stolen_with_one_of_them_killed_midway() -> None:
    with own_postgres() as postgres, ExitStack() as stack:
        services = started(postgres, stack)
        urls = [service.url for service in services]

        lab = [Lab(url) for url in urls]
        space = lab[0].open_space(1)
        targets = [f"{space['targets']}{number}" for number in range(CREATES)]
        with ThreadPoolExecutor(8) as pool:
            keys = pool.map(
                lambda number: lab[number % 2].create(
                    space["space"], "on_conflict", targets[number]
                ),
                range(CREATES),
            )
            told = dict(zip(keys, targets, strict=True))
        assert len(told) == CREATES
        assert {link.key: link.target_url for link in lab[1].links(space["space"])} == told

        with running(urls) as traffic:
            until_followed(traffic, ENOUGH)
        hits, result = traffic.reconciled()
        assert hits == traffic.ledger.redirects.total() == traffic.followed >= ENOUGH
        assert (harm(result), traffic.ledger.errors) == ({}, {})

        with running(urls) as traffic:
            until_followed(traffic, ENOUGH)
            kill(services[1])
            until_followed(traffic, traffic.ledger.redirects.total() + ENOUGH)
        hits, result = traffic.reconciled()
        assert traffic.ledger.redirects.total() <= hits <= traffic.followed
        assert harm(result) == {}
