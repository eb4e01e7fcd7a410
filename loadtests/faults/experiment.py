"""An experiment: one fault in a service under load, and what was measured meanwhile."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

from loadtests.faults.outcome import (
    PROBE_BOUND,
    QUICK,
    TIMEOUT,
    FaultOutcome,
    Figure,
    NotRecovered,
)
from loadtests.faults.traffic import Traffic, running
from loadtests.harness.own_postgres import OwnPostgres, own_postgres
from loadtests.harness.serving import ROOT, RunningService, serving
from loadtests.harness.waiting import wait_until

# So many redirects one after another, without an error between them, are a service at work.
AT_WORK = 100

# The hits and visits of links differ by so many. Of any one dimension, the rows that have a value
# have each visit once: see VisitCount.
DIFFERENCES = """
    SELECT coalesce(sum(abs(link.hits - coalesce(visits.hits, 0))), 0)
    FROM shorturl_shorturl AS link LEFT JOIN (
        SELECT key, unnest(ARRAY[
            sum(hits) FILTER (WHERE referrer <> '*'), sum(hits) FILTER (WHERE browser <> '*'),
            sum(hits) FILTER (WHERE system <> '*'), sum(hits) FILTER (WHERE device <> '*'),
            sum(hits) FILTER (WHERE country <> '*')
        ]) AS hits FROM shorturl_visitcount GROUP BY key
    ) AS visits USING (key)
"""


@dataclass
class Place:
    """Where a fault happens: PostgreSQL, the services, and the addresses that the load uses.

    `tool` is what a fault uses there: a proxy, for example. `probed` is the address where /healthz
    is asked, when it is not the first of `urls`. `visits` says that the service records visits.
    """

    postgres: OwnPostgres
    services: list[RunningService]
    urls: list[str]
    tool: Any = None
    probed: str = ""
    visits: bool = True


def served(database_url: str, **environment: str) -> AbstractContextManager[RunningService]:
    """Serve from that database with the settings, workers and threads of a production."""
    settings = {"SHORTURL_LAB": "on", "SHORTURL_RESOLVING": "", **environment}
    return serving(DATABASE_URL=database_url, **settings)


@contextmanager
def plain(options: str = "", **environment: str) -> Iterator[Place]:
    """Have one service on one PostgreSQL; `options` are those of the connections to it."""
    with own_postgres(options=options) as postgres, served(postgres.url, **environment) as service:
        yield Place(postgres, [service], [service.url])


@dataclass
class Experiment:
    """A fault that happens: where, and under which load."""

    place: Place
    traffic: Traffic

    @property
    def postgres(self) -> OwnPostgres:
        """The PostgreSQL of the service."""
        return self.place.postgres

    @property
    def master(self) -> psutil.Process:
        """The gunicorn master of the last service."""
        return psutil.Process(self.place.services[-1].process.pid)

    def go_on(self, seconds: float) -> None:
        """Let the load go on for so long."""
        time.sleep(seconds)

    def wait_until_at_work(self, problem: str) -> None:
        """Wait until the load is answered, without an error, AT_WORK times."""
        self.traffic.unbroken = 0
        self.wait(lambda: self.traffic.unbroken >= AT_WORK, problem)

    def wait(self, condition: Callable[[], bool], problem: str, timeout: float = TIMEOUT) -> float:
        """Wait until `condition`; return the seconds. Raise NotRecovered with `problem`."""
        try:
            return wait_until(condition, problem, timeout)
        except TimeoutError as error:
            raise NotRecovered(str(error)) from error


class KindOfFault(NamedTuple):
    """A row of the table.

    `inject` injects the fault, and yields figures besides the longest wait. `bound` is the most
    that a request may wait, in seconds; None claims nothing. `affects` says that some request has
    to be affected: a fault without an effect proves nothing. `probes` says that /healthz answers
    throughout. `quick` faults are those that CI runs.
    """

    name: str
    does: str
    must_hold: str
    inject: Callable[[Experiment], Iterable[Figure] | None]
    place: Callable[[str], AbstractContextManager[Place]] = plain
    bound: float | None = QUICK
    quick: bool = True
    affects: bool = False
    probes: bool = True

    def run(self, place: Place) -> FaultOutcome:
        """Have users at work, inject the fault, wait for the service to recover, and reconcile.

        Raises NotRecovered, and LabError when the service is not there.
        """
        with running(place.urls, probed=place.probed) as traffic:
            experiment = Experiment(place, traffic)
            experiment.wait_until_at_work("the load does not begin")
            traffic.begin_measuring()
            figures = [*(self.inject(experiment) or ())]
            experiment.wait_until_at_work("the load is not answered after the fault")
        unrecorded = hits_without_visits(place.postgres)
        hits, result = traffic.reconciled()
        standard = [Figure("longest wait", traffic.longest, self.bound, " s")]
        if self.probes:
            standard.append(Figure("/healthz", traffic.longest_probe, PROBE_BOUND, " s"))
            standard.append(Figure("failed /healthz", traffic.failed_probes, 0))
        if place.visits:
            standard.append(Figure("hits without a visit", unrecorded, 0))
        if self.affects:
            affected = traffic.ledger.errors.total()
            standard.append(Figure("requests affected", affected, 1, least=True))
        acknowledged = traffic.ledger.redirects.total()
        return FaultOutcome(acknowledged, hits, traffic.followed, [*standard, *figures], result)


def hits_without_visits(postgres: OwnPostgres) -> int:
    """Return by how much hits and visits of links differ."""
    with closing(postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(DIFFERENCES)
        return int(cursor.fetchone()[0])


def found(cursor: Any, query: str) -> bool:
    """Return whether a query of PostgreSQL's statistics finds any row now.

    Without the first statement it would find what it did at the transaction's first look.
    """
    cursor.execute("SELECT pg_stat_clear_snapshot()")
    cursor.execute(query)
    return bool(cursor.fetchall())


@contextmanager
def manage(
    command: str, database_url: str, *arguments: str, **environment: str
) -> "Iterator[subprocess.Popen[bytes]]":
    """Have that command of manage.py at work on a database; kill it at the end of the block."""
    variables = {**os.environ, "SHORTURL_LOCAL": "on", "DATABASE_URL": database_url, **environment}
    with subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
        [sys.executable, "manage.py", command, *arguments],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
