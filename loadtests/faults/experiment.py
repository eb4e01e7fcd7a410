"""An experiment: faults in a service under load, and the time until it has recovered from each."""

import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

from loadtests.harness.own_postgres import OwnPostgres

# So many hits before a fault, for all users to be at work, and after it, for the service to be.
HITS = 200
TIMEOUT = 30  # seconds, for the load to begin and for the service to recover
POLL_INTERVAL = 0.01  # seconds


class Inconclusive(Exception):
    """The faults could not be tried. The message is one line."""


class NotRecovered(Exception):
    """The service did not recover from a fault. The message is one line."""


class InjectedFault(NamedTuple):
    """A fault: its name, the function that injects it, and what must hold in spite of it."""

    name: str
    inject: Callable[["Experiment"], None]
    must_hold: str


class Recovery(NamedTuple):
    """The name of a fault, and the seconds from its beginning until hits were counted again."""

    fault: str
    seconds: float


@dataclass
class Experiment:
    """A service under load: gunicorn's master, its number of workers, PostgreSQL, and Locust."""

    master: psutil.Process
    workers: int
    postgres: OwnPostgres
    load: "subprocess.Popen[bytes]"
    recoveries: list[Recovery] = field(default_factory=list)

    def run(self, faults: Sequence[InjectedFault], rounds: int) -> None:
        """Inject each fault `rounds` times, in random order; raise NotRecovered, Inconclusive."""
        for fault in random.sample([*faults] * rounds, len(faults) * rounds):
            self.wait_for_hits("the load does not begin")
            began = time.monotonic()
            fault.inject(self)
            self.wait_for_hits(f"no hit is counted after the {fault.name}")
            self.recoveries.append(Recovery(fault.name, time.monotonic() - began))

    def wait_for_hits(self, problem: str) -> None:
        """Wait until the load has made HITS more hits."""
        target: int | None = None

        def made() -> bool:
            nonlocal target
            hits = self.postgres.hits()  # None while PostgreSQL is down, or has no tables yet
            if hits is None:
                return False
            target = hits + HITS if target is None else target
            return hits >= target

        self.wait(made, problem)

    def wait(self, condition: Callable[[], bool], problem: str) -> None:
        """Wait until `condition`; raise NotRecovered with `problem` after TIMEOUT seconds."""
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            if self.load.poll() is not None:
                raise Inconclusive("the load ended before the faults did")
            if time.monotonic() > deadline:
                raise NotRecovered(f"{problem} within {TIMEOUT} s")
            time.sleep(POLL_INTERVAL)
