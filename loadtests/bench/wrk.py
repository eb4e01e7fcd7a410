"""wrk, the load generator. It is written in C and leaves most processor time to the service."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

SCRIPT = Path(__file__).with_name("wrk.lua")
PATIENCE = 20  # seconds that an answer may take; wrk waits for the last ones
OVERTIME = 10  # seconds that wrk may take to end after that


class Unusable(Exception):
    """wrk is not installed, or got no answer. The message says what to do, or why."""


@dataclass(frozen=True)
class Sample:
    """wrk's result: all answers, those without an error per second, and times in milliseconds.

    `errors` has the number of requests that failed, by the kind of the error.
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
        """Return by how many requests the number that the database `counted` is wrong.

        An answer, in time or late, is an acknowledgement unless it is an error. For a request that
        failed, it is unknown whether it was counted.
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


def run(url: str, body: str, keys: str, links: int, connections: int, seconds: float) -> Sample:
    """Return the result of `connections` clients that send requests without pause for `seconds`.

    They request `url` with a number after it, "one" or "random" of the numbers up to
    `links`. For "new" they post `body` to it, with a random number in the place of %d. Raises
    Unusable, and CalledProcessError when no service is at `url`.
    """
    longest = round(seconds + PATIENCE)
    command = [find(), "--threads=1", f"--connections={connections}", f"--duration={longest}s"]
    command += [f"--timeout={PATIENCE}s", f"--script={SCRIPT}", url, "--"]
    command += [keys, str(links), str(seconds), str(connections), urlsplit(url).path, body]
    ended = subprocess.run(  # noqa: S603 - nothing in it comes from outside
        command, capture_output=True, text=True, check=True, timeout=longest + OVERTIME
    )
    line = (ended.stdout.strip().splitlines() or [""])[-1]
    if not line.startswith("{"):
        raise Unusable(f"wrk printed no result: {line or 'it printed nothing'}")
    sample = Sample(**json.loads(line))
    if not sample.requests:
        errors = ", ".join(f"{count} {kind}" for kind, count in sample.errors.items() if count)
        raise Unusable(f"wrk got no answer in time ({errors or 'no error either'})")
    return sample
