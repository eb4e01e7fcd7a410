"""An experiment: one fault in a service under load, its figures, and whether they hold."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil
from django.core.exceptions import ImproperlyConfigured

from loadtests.faults.traffic import Traffic, running
from loadtests.harness.lab_api import LabError
from loadtests.harness.own_postgres import OwnPostgres, own_postgres
from loadtests.harness.own_proxies import NotInstalled
from loadtests.harness.result import ExitCode, LoadResult
from loadtests.harness.serving import NotServed, RunningService, serving, wait_until

AT_WORK = 100  # redirects in a row without an error, after which the service counts as working
TIMEOUT = 60  # seconds, for the load to begin and for the service to recover
PROBE_BOUND = 1.0  # seconds, of /healthz
QUICK = 1.0  # seconds for a request that waits only for a thread
REQUEST_TIMEOUT = 12.0  # seconds, as in docs/monitoring.md
MARGIN = 0.5  # seconds, for a machine that is busy with the load

# The sum of the differences between the hits and the visits of links, by each dimension.
DIFFERENCES = """
    WITH recent AS (
        SELECT key, sum(jsonb_array_length(kinds)) AS visits FROM shorturl_recentvisits GROUP BY key
    ), days AS (
        SELECT key, dimension, sum(people + bots) AS visits FROM shorturl_dailyvisits
        GROUP BY key, dimension
    )
    SELECT coalesce(sum(abs(hits - coalesce(recent.visits, 0) - coalesce(days.visits, 0))), 0)
    FROM shorturl_shorturl CROSS JOIN (
        VALUES ('referrer'), ('browser'), ('system'), ('device'), ('country')
    ) AS dimensions (dimension)
    LEFT JOIN recent USING (key) LEFT JOIN days USING (key, dimension)
"""


class NotRecovered(Exception):
    """The service did not recover from a fault. The message is one line."""


class Figure(NamedTuple):
    """A measured number. `bound` is its maximum, with `least` its minimum; None is no bound."""

    what: str
    measured: float
    bound: float | None
    unit: str = ""
    least: bool = False

    @property
    def holds(self) -> bool:
        if self.bound is None:
            return True
        return self.measured >= self.bound if self.least else self.measured <= self.bound

    def __str__(self) -> str:
        digits = ".2f" if self.unit == " s" else ".0f"
        limit = "" if self.bound is None else f" {'≥' if self.least else '≤'} {self.bound:g}"
        return f"{self.what} {self.measured:{digits}}{limit}{self.unit}"


class FaultOutcome(NamedTuple):
    """The redirects as clients and database count them, and the figures.

    The first figure is the longest wait for an answer.
    """

    acknowledged: int
    hits: int
    sent: int
    figures: list[Figure]
    result: LoadResult

    def missed(self) -> list[str]:
        """Return the figures and counts that did not hold."""
        return [*(str(figure) for figure in self.figures if not figure.holds), *self.miscounted()]

    def miscounted(self) -> list[str]:
        """Return the counts that did not hold; a busy machine does not explain them."""
        told = []
        if not self.acknowledged <= self.hits <= self.sent:
            told.append("acknowledged ≤ hits ≤ sent")
        if self.result.violated or self.result.reason:
            errors = (f"{number} × {kind}" for kind, number in self.result.errors.items())
            told.append(": ".join(filter(None, ["the ledger", ", ".join(errors)])))
        return told


@dataclass
class Place:
    """Where a fault happens: PostgreSQL, the services, and the addresses that the load uses.

    `tool` is an object that the fault needs, such as a proxy. `probed` is the address of /healthz,
    unless it is the first of `urls`.
    """

    postgres: OwnPostgres
    services: list[RunningService]
    urls: list[str]
    tool: Any = None
    probed: str = ""


def served(database_url: str, **environment: str) -> AbstractContextManager[RunningService]:
    """Serve from that database with the settings, workers and threads of a production."""
    return serving(DATABASE_URL=database_url, SHORTURL_LAB="on", **environment)


@contextmanager
def plain(options: str) -> Iterator[Place]:
    """Yield one service on one PostgreSQL; `options` are those of the connections to it."""
    with own_postgres(options=options) as postgres, served(postgres.url) as service:
        yield Place(postgres, [service], [service.url])


@dataclass
class Experiment:
    """A place under load, which a fault is injected into."""

    place: Place
    traffic: Traffic

    @property
    def postgres(self) -> OwnPostgres:
        return self.place.postgres

    @property
    def master(self) -> psutil.Process:
        """The gunicorn master of the last service."""
        return psutil.Process(self.place.services[-1].process.pid)

    def go_on(self, seconds: float) -> None:
        """Let the load go on for this time."""
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

    `inject` injects the fault, and yields figures besides the longest wait. `bound` is the longest
    wait allowed, in seconds; None is no bound. With `affects` some request has to be affected: a
    fault without an effect proves nothing. With `probes` /healthz has to answer throughout.
    """

    name: str
    does: str
    must_hold: str
    inject: Callable[[Experiment], Iterable[Figure] | None]
    place: Callable[[str], AbstractContextManager[Place]] = plain
    bound: float | None = QUICK
    affects: bool = False
    probes: bool = True

    def run(self, place: Place) -> FaultOutcome:
        """Start users, inject the fault, wait for the service to recover, and reconcile.

        Raises NotRecovered, and LabError when the service is not running.
        """
        with running(place.urls, probed=place.probed) as traffic:
            experiment = Experiment(place, traffic)
            experiment.wait_until_at_work("the load does not begin")
            traffic.begin_measuring()
            figures = [*(self.inject(experiment) or ())]
            experiment.wait_until_at_work("the load is not answered after the fault")
        with place.postgres.session() as cursor:  # before reconciled() removes the links
            cursor.execute(DIFFERENCES)
            unrecorded = int(cursor.fetchone()[0])
        hits, result = traffic.reconciled()
        standard = [Figure("longest wait", traffic.longest, self.bound, " s")]
        if self.probes:
            standard.append(Figure("/healthz", traffic.longest_probe, PROBE_BOUND, " s"))
            standard.append(Figure("failed /healthz", traffic.failed_probes, 0))
        standard.append(Figure("hits without a visit", unrecorded, 0))
        if self.affects:
            affected = traffic.ledger.errors.total()
            standard.append(Figure("requests affected", affected, 1, least=True))
        acknowledged = traffic.ledger.redirects.total()
        return FaultOutcome(acknowledged, hits, traffic.followed, [*standard, *figures], result)


def found(cursor: Any, query: str) -> bool:
    """Return whether a query of PostgreSQL's statistics finds any row now.

    Without the first statement, a transaction sees the statistics of its first query.
    """
    cursor.execute("SELECT pg_stat_clear_snapshot()")
    cursor.execute(query)
    return bool(cursor.fetchall())


def run(command: str) -> None:
    """Run a command without quotes; raise NotInstalled when it fails."""
    ended = subprocess.run(command.split(), check=False, capture_output=True, text=True)  # noqa: S603
    if ended.returncode:
        raise NotInstalled(f"{command}: {ended.stderr.strip()}")


def reported(name: str, measure: Callable[[], ExitCode]) -> ExitCode:
    """Return the exit code of `measure`; print an error as one line that begins with `name`.

    On SIGTERM, the processes that it has started are ended before this one.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    unmeasured = NotInstalled, NotServed, LabError, ImproperlyConfigured
    code = ExitCode.INCONCLUSIVE
    try:
        return measure()
    except NotRecovered as error:
        reason, code = str(error), ExitCode.UNEXPECTED
    except (*unmeasured, OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    except KeyboardInterrupt:
        reason = "stopped"
    print(f"{name}: {reason}", file=sys.stderr)
    return code
