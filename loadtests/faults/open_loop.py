"""An open load: requests arrive at a fixed rate, whether earlier ones were answered or not.

It is sent by httperf, which is quicker than the service can be on as many processors; each request
comes on a connection of its own.
"""

import re
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from loadtests.faults.experiment import QUICK, Experiment, Figure, Skipped

SECONDS = 5  # that requests arrive at each rate
CLIENT_TIMEOUT = 5  # seconds
LEAST_GOODPUT = 70  # percent of the capacity, under any load
FIRST_RATE = 200  # requests/s, doubled until the goodput no longer grows
OPEN_FILES = 20_000


class OfferedLoad(NamedTuple):
    """The result of requests that arrived at `rate` per second; times in seconds."""

    rate: float
    answered: int
    refused: int
    failed: int
    seconds: float
    longest: float

    @property
    def goodput(self) -> float:
        """The redirects answered in a second."""
        return self.answered / self.seconds


def overload(
    experiment: Experiment, multiples: Sequence[int], loads: list[OfferedLoad]
) -> Iterator[Figure]:
    """Offer multiples of the capacity, which is the best goodput of a series of rates.

    Appends the results to `loads`, and yields the figures. Raises Skipped without httperf.
    """
    if shutil.which("httperf") is None:
        raise Skipped("httperf is not installed: apt-get install httperf")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))
    capacity = find_capacity(experiment)
    for multiple in multiples:
        load = offer(experiment, multiple * capacity)
        loads.append(load)
        share = 100 * load.goodput / min(load.rate, capacity)
        yield Figure(f"{multiple} ×: goodput", share, LEAST_GOODPUT, " %", least=True)
        yield Figure(f"{multiple} ×: longest answer", load.longest, QUICK, " s")
        yield Figure(f"{multiple} ×: without an answer", load.failed, 0)


def find_capacity(experiment: Experiment) -> float:
    """Return the best goodput, in redirects per second."""
    best, rate = 0.0, FIRST_RATE
    while True:
        goodput = offer(experiment, rate).goodput
        if goodput < 1.1 * best and goodput < rate / 2:
            return max(best, goodput)
        best, rate = max(best, goodput), 2 * rate


def offer(experiment: Experiment, rate: float) -> OfferedLoad:
    """Have requests for the hot short URL arrive at `rate` per second for SECONDS."""
    traffic, address = experiment.traffic, urlsplit(experiment.place.urls[0])
    number = int(rate * SECONDS)
    command = ["httperf", "--hog", f"--server={address.hostname}", f"--port={address.port}"]
    command += [f"--uri=/{traffic.hot}", f"--rate={rate:.0f}", f"--num-conns={number}"]
    command += [f"--timeout={CLIENT_TIMEOUT}"]
    printed = subprocess.run(  # noqa: S603 - nothing in it comes from outside
        command, capture_output=True, text=True, check=True, timeout=SECONDS + 60
    ).stdout
    sent = number - int(figure(r"fd-unavail (\d+)", printed))
    answered, refused = (
        int(figure(rf"Reply status: .*{kind}=(\d+)", printed)) for kind in ("3xx", "5xx")
    )
    failed = sent - answered - refused
    with traffic.lock:
        traffic.followed += sent
        traffic.ledger.sent += sent
        traffic.ledger.redirects[traffic.hot] += answered
        traffic.ledger.unknown_redirects[traffic.hot] += failed  # and none that was refused
    return OfferedLoad(
        rate=figure(r"Request rate: ([\d.]+)", printed),
        answered=answered,
        refused=refused,
        failed=failed,
        seconds=figure(r"test-duration ([\d.]+)", printed),
        longest=figure(r"Connection time \[ms\]: .* max ([\d.]+)", printed) / 1000,
    )


def figure(pattern: str, printed: str) -> float:
    """Return the number that httperf printed there; raise OSError without one."""
    if found := re.search(pattern, printed):
        return float(found[1])
    raise OSError(f"httperf printed nothing like {pattern!r}")
