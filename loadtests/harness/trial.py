"""The faults, and how long it takes until hits are counted again after each of them."""

import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from loadtests.harness.own_postgres import OwnPostgres, Stop

# As many hits before a fault, for all users to be at work, and after it, for the service to be.
HITS = 200
TIMEOUT = 30  # seconds, for the load to begin, and for the service to come back
POLL_INTERVAL = 0.01  # seconds


class NotJudged(Exception):
    """The faults could not be tried. The message is one line for people."""


class NotBack(Exception):
    """The service did not come back after a fault. The message is one line for people."""


@dataclass
class Recovery:
    """A fault, and the seconds from then until hits were counted as before."""

    fault: str
    seconds: float


class Trial:
    """A service under load, and what is done to it."""

    def __init__(
        self,
        master: psutil.Process,
        workers: int,
        postgres: OwnPostgres,
        load: "subprocess.Popen[bytes]",
    ) -> None:
        self.master, self.workers, self.postgres, self.load = master, workers, postgres, load
        self.recoveries: list[Recovery] = []
        self.faults: dict[str, Callable[[], object]] = {
            "kill -9 of a gunicorn worker": self.kill_worker,
            "restart of PostgreSQL": lambda: self.restart(Stop.FAST),
            "crash of PostgreSQL": lambda: self.restart(Stop.IMMEDIATE),
        }

    def run(self, rounds: int) -> None:
        """Cause every fault that many times, in random order; raise NotBack or NotJudged."""
        for fault in random.sample([*self.faults] * rounds, len(self.faults) * rounds):
            self.wait_for_hits("the load does not begin")
            began = time.monotonic()
            self.faults[fault]()
            self.wait_for_hits(f"no hit is counted after the {fault}")
            self.recoveries.append(Recovery(fault, time.monotonic() - began))

    def kill_worker(self) -> None:
        """Kill the worker with the most connections, and wait until there is another one."""
        victim = max(self.master.children(), key=connections)
        victim.kill()

        def replaced() -> bool:
            workers = self.master.children()
            return victim not in workers and len(workers) == self.workers

        self.wait(replaced, "gunicorn does not replace the worker that was killed")

    def restart(self, how: Stop) -> None:
        """Stop PostgreSQL and start it again."""
        self.postgres.stop(how)
        self.postgres.start()

    def wait_for_hits(self, problem: str) -> None:
        """Wait until the load has made HITS more hits."""
        target: int | None = None

        def made() -> bool:
            nonlocal target
            hits = self.postgres.hits()  # None while PostgreSQL does not tell, or has no tables yet
            if hits is None:
                return False
            target = hits + HITS if target is None else target
            return hits >= target

        self.wait(made, problem)

    def wait(self, condition: Callable[[], bool], problem: str) -> None:
        """Wait until `condition`; raise NotBack with the problem after TIMEOUT seconds."""
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            if self.load.poll() is not None:
                raise NotJudged("the load ended before the faults did")
            if time.monotonic() > deadline:
                raise NotBack(f"{problem}, not within {TIMEOUT} s")
            time.sleep(POLL_INTERVAL)


def connections(worker: psutil.Process) -> int:
    """Return how many connections a worker has open."""
    try:
        return len(worker.net_connections("inet"))
    except psutil.NoSuchProcess:
        return -1
