"""wrk, the load generator: written in C, it leaves the service most of the processors."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("wrk.lua")
MISSING = "wrk is not installed: apt-get install wrk (or brew install wrk)"
OVERTIME = 30  # seconds that it may take to end


class Missing(Exception):
    """A program is not installed. The message says how to get it."""


@dataclass(frozen=True)
class Sample:
    """What wrk saw: requests that were answered, in `seconds`; times in milliseconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    errors: int

    @property
    def per_second(self) -> float:
        """The requests answered in a second."""
        return self.requests / self.seconds


def find() -> str:
    """Return wrk's path; raise Missing."""
    if path := shutil.which("wrk"):
        return path
    raise Missing(MISSING)


def version() -> str:
    """Return wrk's name and version; raise Missing."""
    told = subprocess.run([find(), "-v"], capture_output=True, text=True, check=False)  # noqa: S603
    return " ".join(told.stdout.split()[:2])


def run(url: str, *, connections: int, seconds: int, keys: int | None = None) -> Sample:
    """Return what `connections` clients get without pause in `seconds`.

    They ask for `url`; with `keys`, for a random one of /k1 to /k<keys> instead. Raises Missing,
    and CalledProcessError when there is nobody at `url`.
    """
    command = [find(), "--threads=1", f"--connections={connections}", f"--duration={seconds}s"]
    command += [f"--script={SCRIPT}", url, "--", *([str(keys)] if keys else [])]
    ended = subprocess.run(  # noqa: S603 - nothing in it comes from outside
        command, capture_output=True, text=True, check=True, timeout=seconds + OVERTIME
    )
    return Sample(**json.loads(ended.stdout.splitlines()[-1]))
