"""wrk, the load generator: written in C, it leaves the service most of the processors."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("wrk.lua")
PATIENCE = 20  # seconds that an answer may take, also the last ones, for which wrk waits
OVERTIME = 10  # seconds that it may take to end after that


class Unusable(Exception):
    """wrk is not installed, or has got no answer. The message says what to do, or why."""


@dataclass(frozen=True)
class Sample:
    """What wrk saw: the answers in all, and those without error in a second; milliseconds.

    `errors` are the requests that failed, by what went wrong.
    """

    requests: int
    per_second: float
    p50: float
    p99: float
    p999: float
    errors: dict[str, int]

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    def miscounted(self, counted: int) -> int:
        """Return how many requests are too few or too many in what the database `counted`.

        An answer in time or late is an acknowledgement unless it is an error; of a request that
        failed this is unknown.
        """
        refused = self.errors.get("an error as the answer", 0)
        acknowledged = self.requests - refused
        unknown = self.failed - self.errors.get("too late", 0)
        return max(0, acknowledged - counted, counted - acknowledged - unknown)


def find() -> str:
    """Return wrk's path; raise Unusable."""
    if path := shutil.which("wrk"):
        return path
    raise Unusable("wrk is not installed: apt-get install wrk (or brew install wrk)")


def version() -> str:
    """Return wrk's name and version; raise Unusable."""
    told = subprocess.run([find(), "-v"], capture_output=True, text=True, check=False)  # noqa: S603
    return " ".join(told.stdout.split()[:2])


def run(url: str, *, keys: str, links: int, connections: int, seconds: float) -> Sample:
    """Return what `connections` clients get without pause in `seconds`, and the last ones after it.

    They ask for "one", "random" or "Zipf" `keys` of /k1 to /k<links>, or create "new" ones. Raises
    Unusable, and CalledProcessError when no service is at `url`.
    """
    longest = round(seconds + PATIENCE)
    command = [find(), "--threads=1", f"--connections={connections}", f"--duration={longest}s"]
    command += [f"--timeout={PATIENCE}s", f"--script={SCRIPT}", url, "--"]
    command += [keys, str(links), str(seconds), str(connections)]
    ended = subprocess.run(  # noqa: S603 - nothing in it comes from outside
        command, capture_output=True, text=True, check=True, timeout=longest + OVERTIME
    )
    line = (ended.stdout.strip().splitlines() or [""])[-1]
    if not line.startswith("{"):
        raise Unusable(f"wrk does not say what it measured: {line or 'it printed nothing'}")
    sample = Sample(**json.loads(line))
    if not sample.requests:
        errors = ", ".join(f"{count} {kind}" for kind, count in sample.errors.items() if count)
        raise Unusable(f"wrk got no answer in time ({errors or 'no error either'})")
    return sample
