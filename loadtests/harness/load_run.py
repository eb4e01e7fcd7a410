"""A load run: the key space it opens, the ledger its users fill, the verdict at its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import psutil

from loadtests.harness import result
from loadtests.harness.lab_api import Lab, LabError, Link
from loadtests.harness.ledger import Ledger
from loadtests.harness.verdict import Verdict, judge

# Seconds. A request is given up after the first; a worker's last word, which waits for the requests
# in flight, after the second.
REQUEST_TIMEOUT = 20
FINISH_TIMEOUT = REQUEST_TIMEOUT + 5
POLL_INTERVAL = 0.01

Prepare = Callable[[Lab, str, Any], dict[str, Any]]


class LoadRun:
    """The runs of one script in this process, one after the other.

    `operation` is what is measured: resolving, creating, or the service as a whole.
    `prepare(lab, space, options)` makes what the users need in a new key space, and returns it as
    plain data, which reaches the users of every process as `given`; its "seeds" are the keys that
    it made. `options` are those of the command line, or of the web form.
    """

    def __init__(
        self, script: str, operation: str, *, prepare: Prepare, key_length: int | None = None
    ) -> None:
        self.script, self.operation = script, operation
        self.prepare, self.key_length = prepare, key_length
        self.host, self.options = "", None  # type: str, Any
        self.given: dict[str, Any] = {}
        self.ledger = Ledger()
        self.total = 0  # requests sent by this process
        self.in_flight = 0
        self.stopping = True  # no request is to begin
        self.opened = False
        self.problem = ""
        self.verdict: Verdict | None = None
        self._began = self._cpu_began = 0.0

    @property
    def strategy(self) -> str:
        """The strategy's name; the whole service runs those that it is configured for."""
        return str(getattr(self.options, "strategy", "service"))

    # --- Before ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open a key space and prepare it; `problem` says why not, if not."""
        self.problem, self.opened = "", False
        try:
            lab = Lab(self.host)
            opened = lab.open_space(self.key_length or self.options.key_length)
            self.given = {**opened, "seeds": [], "table": self.table(opened)}
            self.opened = True
            self.given.update(self.prepare(lab, opened["space"], self.options))
        except LabError as error:
            self.problem = str(error)
            self.close()

    def table(self, opened: dict[str, Any]) -> str:
        """Return what the strategies' table says of what is measured."""
        if self.operation == "service":
            used = [opened[name].get(opened["service"][name]) for name in ("creating", "resolving")]
            return "wrong" if "wrong" in used else "right"
        strategies = opened[self.operation]
        if self.strategy not in strategies:
            known = ", ".join(strategies)
            raise LabError(f"there is no strategy {self.strategy!r}; there are {known}")
        return str(strategies[self.strategy])

    def begin(self) -> None:
        """Let the users begin, with an empty ledger."""
        self.ledger, self.total, self.in_flight, self.verdict = Ledger(), 0, 0, None
        self._began, self._cpu_began = time.time(), cpu_seconds()
        self.stopping = bool(self.problem)

    # --- Meanwhile and after ---------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds since the users began."""
        return time.time() - self._began

    def take(self) -> Ledger:
        """Return what was noted since the last call, and go on with an empty ledger."""
        taken, self.ledger = self.ledger, Ledger()
        return taken

    def drain(self, process: str) -> None:
        """Let no request begin any more, and wait for those in flight.

        `process` is the name of this one, under which the ledger has its processor time.
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

    def judged(self) -> Verdict:
        """Return the verdict on the ledger as it is, against the database as it is."""
        # A copy, made first: what it acknowledges is in the database by the time that one is asked.
        ledger, links, reason = Ledger.from_data(self.ledger.as_data()), list[Link](), self.problem
        if self.opened:
            try:
                links = list(Lab(self.host).links(self.given["space"]))
            except LabError as error:
                reason = reason or f"the links cannot be read: {error}"
        return judge(
            ledger,
            links,
            script=self.script,
            strategy=self.strategy,
            operation=self.operation,
            table=self.given.get("table", "unknown"),
            seeds=self.given.get("seeds", ()),
            faults=self.options.faults,
            reason=reason,
        )

    def finish(self) -> Verdict:
        """Judge, say and write what came of the run, and remove the key space."""
        self.verdict = self.judged()
        self.close()
        if self.problem and not self.ledger.sent:
            return self.verdict  # the problem was told when it was found
        print(f"\n{result.text(self.verdict)}\n")
        try:
            path = result.write(self.verdict, Path(self.options.reports))
            print(f"  written to {path} and {path.with_suffix('.csv').name}", flush=True)
        except OSError as error:
            print(f"{self.script}: the verdict is not written: {error}", file=sys.stderr)
        return self.verdict

    def close(self) -> None:
        """Remove the key space with its links."""
        if not self.opened:
            return
        self.opened = False
        space = self.given["space"]
        try:
            Lab(self.host).close_space(space)
        except LabError as error:
            print(f"{space} is left behind, for `manage.py spaces sweep`: {error}", file=sys.stderr)


def cpu_seconds() -> float:
    """Return the processor time that this process has used."""
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)
