"""An experiment: one fault in a service under load, and what was measured meanwhile."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

from loadtests.faults.traffic import Traffic, running
from loadtests.harness.own_postgres import OwnPostgres, own_postgres
from loadtests.harness.reconciliation import LoadResult
from loadtests.harness.serving import RunningService, serving

# So many redirects one after another, without an error between them, are a service at work.
AT_WORK = 100
TIMEOUT = 60  # seconds, for the load to begin and for the service to recover
POLL_INTERVAL = 0.02  # seconds
PROBE_BOUND = 1.0  # seconds, of /healthz

# Seconds that docs/deploying.md promises, by the number's name there.
QUEUE_TIMEOUT, LOCK_TIMEOUT, CONNECT_TIMEOUT = 0.5, 1.0, 3.0
RECEIVE_TIMEOUT, REQUEST_TIMEOUT, KEEPALIVE = 5.0, 12.0, 30.0
# What a machine that is busy with the load, too, may add to a limit that has passed.
MARGIN = 0.5
RESPAWN = 10.0  # seconds for gunicorn to replace all workers, and for them to import Django
QUICK = 1.0  # seconds for what waits for nothing but a thread


# Of any one dimension, the rows that have a value have each visit once: see VisitCount.
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


class Skipped(Exception):
    """This machine lacks what the fault needs. The message says what."""


class NotRecovered(Exception):
    """The service did not recover from a fault. The message is one line."""


class Figure(NamedTuple):
    """A measured number, and the bound that it is held to: the most, or the least with `least`."""

    what: str
    measured: float
    bound: float
    unit: str = ""
    least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        return self.measured >= self.bound if self.least else self.measured <= self.bound

    def __str__(self) -> str:
        sign, digits = ("≥" if self.least else "≤"), (".2f" if self.unit == " s" else ".0f")
        return f"{self.what} {self.measured:{digits}} {sign} {self.bound:g}{self.unit}"


@dataclass
class Place:
    """Where a fault happens: PostgreSQL, the services, and the addresses that the load uses.

    `tool` is what a fault uses there: a proxy, for example.
    """

    postgres: OwnPostgres
    services: list[RunningService]
    urls: list[str]
    tool: Any = None


@dataclass
class Setup:
    """What the command line asks for: parameters of the connections, and another strategy."""

    postgres_options: str = ""
    strategy: str = ""  # the service's default

    def serve(
        self, database_url: str, **environment: str
    ) -> AbstractContextManager[RunningService]:
        """Serve from that database with the settings, workers and threads of a production."""
        own = {"SHORTURL_LAB": "on", "SHORTURL_RESOLVING": self.strategy}
        return serving(**own, DATABASE_URL=database_url, **environment)


@contextmanager
def plain(setup: Setup, **environment: str) -> Iterator[Place]:
    """Have one service on one PostgreSQL."""
    with (
        own_postgres(options=setup.postgres_options) as postgres,
        setup.serve(postgres.url, **environment) as service,
    ):
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
    def records_visits(self) -> bool:
        """Whether the service's settings say so: by default, and not where it counts otherwise."""
        # Of several with the same settings: the last one may be dead by now.
        chosen = psutil.Process(self.place.services[0].process.pid).environ()
        default = chosen.get("SHORTURL_RESOLVING", "") in ("", "combined")
        return bool(chosen.get("SHORTURL_VISITS", "" if default else "off") != "off")

    @property
    def master(self) -> psutil.Process:
        """The master of the last service."""
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
        began = time.monotonic()
        while not condition():
            if time.monotonic() > began + timeout:
                raise NotRecovered(f"{problem} within {timeout:.0f} s")
            time.sleep(POLL_INTERVAL)
        return time.monotonic() - began


class InjectedFault(NamedTuple):
    """A row of the catalogue.

    `inject` injects the fault, and yields what else it measured than how long requests waited,
    for which `bound` is the most, in seconds. `affects` says that some request has to be affected:
    a fault that nobody notices proves nothing. `probes` says that /healthz answers throughout.
    """

    inject: Callable[[Experiment], Iterable[Figure]]
    does: str
    must_hold: str
    bound: float
    place: Callable[[Setup], AbstractContextManager[Place]] = plain
    quick: bool = False
    affects: bool = False
    probes: bool = True

    @property
    def name(self) -> str:
        """The name that the command line knows it by."""
        return self.inject.__name__


class FaultOutcome(NamedTuple):
    """What was measured: redirects by the clients' and by the database's account, and figures.

    The first of the figures is the longest time without an answer.
    """

    fault: InjectedFault
    acknowledged: int
    hits: int
    sent: int
    figures: list[Figure]
    result: LoadResult

    def missed(self) -> list[str]:
        """Return what did not hold."""
        return [*(str(figure) for figure in self.figures if not figure.holds), *self.miscounted()]

    def miscounted(self) -> list[str]:
        """Return what did not hold of the counts, on however busy a machine."""
        told = []
        if not self.acknowledged <= self.hits <= self.sent:
            told.append("acknowledged ≤ hits ≤ sent")
        if self.result.violated or self.result.reason:
            errors = (f"{number} × {kind}" for kind, number in self.result.errors.items())
            told.append(": ".join(filter(None, ["the ledger", ", ".join(errors)])))
        return told


def hits_without_visits(postgres: OwnPostgres) -> int:
    """Return by how much hits and visits of links differ."""
    with closing(postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(DIFFERENCES)
        return int(cursor.fetchone()[0])


def run(fault: InjectedFault, place: Place) -> FaultOutcome:
    """Have users at work, inject the fault, wait until the service has recovered, and reconcile.

    Raises NotRecovered, Skipped, and LabError when the service is not there.
    """
    with running(place.urls) as traffic:
        experiment = Experiment(place, traffic)
        experiment.wait_until_at_work("the load does not begin")
        traffic.begin_measuring()
        figures = [*fault.inject(experiment)]
        experiment.wait_until_at_work("the load is not answered after the fault")
    records, unrecorded = experiment.records_visits, hits_without_visits(place.postgres)
    hits, result = traffic.reconciled()
    ledger, standard = traffic.ledger, [Figure("longest wait", traffic.longest, fault.bound, " s")]
    if fault.probes:
        standard.append(Figure("/healthz", traffic.longest_probe, PROBE_BOUND, " s"))
        standard.append(Figure("failed /healthz", traffic.failed_probes, 0))
    if records:
        standard.append(Figure("hits without a visit", unrecorded, 0))
    if fault.affects:
        standard.append(Figure("requests affected", ledger.errors.total(), 1, least=True))
    acknowledged = ledger.redirects.total()
    return FaultOutcome(fault, acknowledged, hits, traffic.followed, [*standard, *figures], result)
