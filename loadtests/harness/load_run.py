"""A load run: the key space it opens, the ledger its users fill, and its result."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import psutil

from loadtests.harness import reports
from loadtests.harness.lab_api import Lab, LabError, StoredLink
from loadtests.harness.ledger import Ledger
from loadtests.harness.measured_operations import KILLS, OPERATIONS, PATIENCE, SERVICE
from loadtests.harness.reconciliation import VISITS, reconcile
from loadtests.harness.result import LoadResult

# Seconds: the timeout of a request, and of a worker's last report, which waits for the requests in
# flight.
REQUEST_TIMEOUT = 20
FINISH_TIMEOUT = REQUEST_TIMEOUT + 5
POLL_INTERVAL = 0.01


@dataclass(eq=False)
class LoadRun:
    """The runs of one script in this process, one after another.

    `operation` is a name in OPERATIONS. A new key space has keys of `key_length` characters, and
    `seeds` links with the limit `max_hits`. The users of every process find their keys in `given`.
    `limit` is the quota of each spender. `users` is the least number of users that can race. With
    `own_visits` the key space has a separate table of visits, for a roll-up. With `faults`, answers
    of an unavailable service are expected.
    """

    operation: str
    key_length: int = 3
    seeds: int = 0
    max_hits: int | None = None
    limit: int | None = None
    users: int = 2
    own_visits: bool = False
    faults: bool = False

    host: str = ""
    options: Any = None  # of the command line or of the web form
    timing: Callable[[], dict[str, float]] = dict  # what Locust measured
    given: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    total: int = 0  # requests sent by this process
    in_flight: int = 0
    stopping: bool = True  # no new request may begin
    opened: bool = False
    problem: str = ""
    result: LoadResult | None = None

    @property
    def script(self) -> str:
        return OPERATIONS[self.operation].script

    @property
    def strategy(self) -> str:
        """The strategy's name; SERVICE for a run of the service's own paths."""
        return str(getattr(self.options, "strategy", SERVICE))

    def open(self) -> None:
        """Open a key space, and make its links; set `problem` on failure."""
        self.problem, self.opened = "", False
        try:
            lab = Lab(self.host)
            opened = lab.open_space(self.key_length, own_visits=self.own_visits)
            seeds = list[str]()
            self.given = {**opened, "seeds": seeds, "verdict": self.verdict(opened)}
            self.opened = True
            for number in range(self.seeds):
                target_url = f"{opened['targets']}seed/{number}"
                key = lab.create(opened["space"], "on_conflict", target_url, self.max_hits)
                seeds.append(key)
        except LabError as error:
            self.problem = str(error)
            self.close()

    def verdict(self, opened: dict[str, Any]) -> str:
        """Return the verdict of the strategies' table on the strategy that runs."""
        if self.strategy == SERVICE:
            if self.operation in VISITS and not opened["records_visits"]:
                raise LabError("the service records no visits: start it with SHORTURL_VISITS=on")
            return "right"
        if wrong := OPERATIONS[self.operation].wrong:
            return "wrong" if self.strategy in wrong else "right"
        strategies = opened["operations"][self.operation]
        if self.strategy not in strategies:
            known = ", ".join(strategies)
            raise LabError(f"there is no strategy {self.strategy!r}; there are {known}")
        return str(strategies[self.strategy])

    def begin(self) -> None:
        """Start with an empty ledger."""
        self.ledger, self.total, self.in_flight, self.result = Ledger(), 0, 0, None
        self._began, self._cpu_began = time.time(), cpu_seconds()
        self.stopping = bool(self.problem)

    @property
    def elapsed(self) -> float:
        """Seconds since the users began."""
        return time.time() - self._began

    def drain(self, process: str) -> None:
        """Allow no new request, and wait for those in flight.

        The ledger stores the CPU time of this process under the name `process`.
        """
        if self.stopping:
            return
        self.stopping = True
        elapsed, busy = self.elapsed, cpu_seconds() - self._cpu_began
        with gevent.Timeout(FINISH_TIMEOUT, False):
            while self.in_flight:
                gevent.sleep(POLL_INTERVAL)
        if elapsed > 0:
            self.ledger.cpu[process] = busy / elapsed

    def reconciled(self) -> LoadResult:
        """Return the result so far: the ledger reconciled with the database."""
        # The copy is made before the query, so the database has all that it acknowledges.
        ledger, links, reason = copy.deepcopy(self.ledger), list[StoredLink](), self.problem
        if self.opened:
            try:
                links = list(Lab(self.host).links(self.given["space"]))
            except LabError as error:
                reason = reason or f"the links cannot be read: {error}"
        result = reconcile(
            ledger,
            links,
            script=self.script,
            strategy=self.strategy,
            operation=self.operation,
            verdict=self.given.get("verdict", "unknown"),
            seeds=self.given.get("seeds", ()),
            limit=self.limit,
            faults=bool(self.faults or self.options.faults or self.options.kill_worker_of),
            reason=reason,
        )
        for name, value in self.timing().items():
            setattr(result, name, value)
        if result.seconds > 0:  # acknowledged requests without edits
            result.per_second = (ledger.acknowledged - ledger.edited) / result.seconds
        return result

    def finish(self) -> LoadResult:
        """Return the result of the run, and remove the key space.

        A strategy that writes after it has answered gets time for that. `result` is set only then,
        because the web page shows it as final.
        """
        result = self.reconciled()
        patience = time.time() + (PATIENCE if self.strategy in KILLS else 0)
        while result.lost and time.time() < patience:
            gevent.sleep(POLL_INTERVAL)
            result = self.reconciled()
        self.result = result
        self.close()
        return result

    def tell(self) -> None:
        """Write and print the result, unless there is none."""
        if not self.result or (self.problem and not self.ledger.sent):
            return  # the problem was printed when it was found
        try:
            reports.write(self.result, Path(self.options.reports))
        except OSError as error:
            print(f"{self.script}: the result cannot be written: {error}", file=sys.stderr)
        print(f"\n{reports.text(self.result)}", flush=True)

    def close(self) -> None:
        """Remove the key space with its links."""
        if not self.opened:
            return
        self.opened = False
        space = self.given["space"]
        try:
            Lab(self.host).close_space(space)
        except LabError as error:
            print(
                f"{space} was not removed; `manage.py spaces sweep` does that: {error}",
                file=sys.stderr,
            )


def cpu_seconds() -> float:
    """Return the CPU time that this process has used."""
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)
