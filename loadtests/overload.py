"""Overload: more requests arrive than can be answered, and the service goes on at its best pace.

What it teaches: a queue without an end turns overload into a failure for everybody, because each
request is answered after its client has left. Here the queue is short. What cannot be answered in
time is refused at once, what is answered stays quick, and the goodput, the redirects answered in a
second, does not fall however many arrive.

How to run it, with httperf (`apt-get install httperf`), against a service of its own:

    .venv/bin/python -m loadtests.overload             # 1, 2, 5 and 10 times the capacity
    .venv/bin/python -m loadtests.overload --quick     # 1 and 5 times, for CI

The load is open: requests arrive at a fixed rate, each on a connection of its own, whether earlier
ones were answered or not. The capacity is the best goodput of a series of rates. The exit code is 0
when every bound below holds, 1 when not, 2 when nothing could be measured.
"""

import argparse
import http.client
import json
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from loadtests.harness.serving import NotServed, serving

SECONDS = 5  # that requests arrive at each rate
CLIENT_TIMEOUT = 5  # seconds
LEAST_GOODPUT = 0.7  # of the capacity, under any load
LONGEST_ANSWER = 1.0  # seconds, of a redirect that is answered, connecting included
LONGEST_PROBE = 1.0  # seconds, of /healthz
FIRST_RATE = 200  # requests/s, doubled until the goodput no longer grows
OPEN_FILES = 20_000


@dataclass(frozen=True)
class OfferedLoad:
    """The result of requests that arrived at `rate` per second; times in seconds."""

    rate: float
    answered: int
    refused: int
    failed: int
    seconds: float
    longest: float
    longest_probe: float
    failed_probes: int
    counted: int

    @property
    def goodput(self) -> float:
        """The redirects answered in a second."""
        return self.answered / self.seconds


class NotMeasured(Exception):
    """There is no measurement. The message says why."""


class HotLink:
    """A short URL of the service at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.host, self.port = urlsplit(url).hostname or "", urlsplit(url).port or 80
        self.key = self._ask("/api/links", {"target_url": "https://example.com/"})["key"]

    def hits(self) -> int:
        """Return the hits counted so far."""
        return int(self._ask(f"/api/links/{self.key}")["hits"])

    def _ask(self, path: str, content: object = None) -> dict[str, str]:
        body = None if content is None else json.dumps(content).encode()
        request = Request(self.url + path, body, {"Content-Type": "application/json"})  # noqa: S310
        with build_opener(ProxyHandler({})).open(request, timeout=60) as response:
            answer: dict[str, str] = json.load(response)
            return answer


class Prober(threading.Thread):
    """Asks /healthz again and again, and keeps the longest time that took."""

    def __init__(self, target: HotLink) -> None:
        super().__init__(daemon=True)
        self.target, self.stopped = target, threading.Event()
        self.longest, self.failed = 0.0, 0

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            began = time.monotonic()
            client = http.client.HTTPConnection(
                self.target.host, self.target.port, timeout=CLIENT_TIMEOUT
            )
            try:
                client.request("GET", "/healthz")
                self.failed += client.getresponse().status != 200
            except (OSError, http.client.HTTPException):
                self.failed += 1
            finally:
                client.close()
            self.longest = max(self.longest, time.monotonic() - began)


def offer(target: HotLink, rate: float) -> OfferedLoad:
    """Let requests arrive at `rate` per second for SECONDS; return the result."""
    number = int(rate * SECONDS)
    before, prober = target.hits(), Prober(target)
    command = ["httperf", "--hog", f"--server={target.host}", f"--port={target.port}"]
    command += [f"--uri=/{target.key}", f"--rate={rate:.0f}", f"--num-conns={number}"]
    command += [f"--timeout={CLIENT_TIMEOUT}"]
    prober.start()
    try:
        ended = subprocess.run(  # noqa: S603 - nothing in it comes from outside
            command, capture_output=True, text=True, check=True, timeout=SECONDS + 60
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"httperf: {error}") from error
    finally:
        prober.stopped.set()
        prober.join()
    answered, refused = (
        figure(rf"Reply status: .*{kind}=(\d+)", ended.stdout) for kind in ("3xx", "5xx")
    )
    return OfferedLoad(
        rate=figure(r"Request rate: ([\d.]+)", ended.stdout),
        answered=int(answered),
        refused=int(refused),
        failed=int(number - answered - refused - figure(r"fd-unavail (\d+)", ended.stdout)),
        seconds=figure(r"test-duration ([\d.]+)", ended.stdout),
        longest=figure(r"Connection time \[ms\]: .* max ([\d.]+)", ended.stdout) / 1000,
        longest_probe=prober.longest,
        failed_probes=prober.failed,
        counted=target.hits() - before,
    )


def figure(pattern: str, printed: str) -> float:
    """Return the number that httperf printed there; raise NotMeasured without one."""
    if found := re.search(pattern, printed):
        return float(found[1])
    raise NotMeasured(f"httperf printed nothing like {pattern!r}")


def missed(load: OfferedLoad, capacity: float) -> list[str]:
    """Return the bounds that do not hold."""
    bounds = {
        f"goodput {load.goodput:.0f}/s": load.goodput >= LEAST_GOODPUT * min(load.rate, capacity),
        f"longest answer {load.longest:.2f} s": load.longest < LONGEST_ANSWER,
        f"longest /healthz {load.longest_probe:.2f} s": load.longest_probe < LONGEST_PROBE,
        f"{load.failed_probes} failed /healthz": not load.failed_probes,
        f"{load.failed} without an answer": not load.failed,
        f"{load.counted} hits, {load.answered} answered": load.counted == load.answered,
    }
    return [bound for bound, holds in bounds.items() if not holds]


def find_capacity(target: HotLink) -> float:
    """Return the best goodput, in redirects per second."""
    best, rate = 0.0, FIRST_RATE
    while True:
        goodput = offer(target, rate).goodput
        if goodput < 1.1 * best:
            return max(best, goodput)
        best, rate = goodput, 2 * rate


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Open load of a multiple of the capacity.")
    parser.add_argument("--quick", action="store_true", help="1 and 5 times the capacity only")
    times = (1, 5) if parser.parse_args().quick else (1, 2, 5, 10)
    if shutil.which("httperf") is None:
        print("overload: httperf is not installed: apt-get install httperf", file=sys.stderr)
        return 2
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, most), most))
    try:
        with serving(WORKERS="2", THREADS="4", SHORTURL_LAB="off") as service:
            target = HotLink(service.url)
            capacity = find_capacity(target)
            print(f"The capacity is {capacity:,.0f} redirects/s, each on a new connection.\n")
            print(
                "| load | offered/s | goodput/s | refused/s | longest answer | longest /healthz |"
            )
            print("| ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
            problems = []
            for each in times:
                load = offer(target, each * capacity)
                print(
                    f"| {each} × | {load.rate:,.0f} | {load.goodput:,.0f} "
                    f"| {load.refused / load.seconds:,.0f} | {load.longest * 1000:,.0f} ms "
                    f"| {load.longest_probe * 1000:,.0f} ms |",
                    flush=True,
                )
                problems += [f"{each} ×: {bound}" for bound in missed(load, capacity)]
    except (NotServed, NotMeasured, OSError) as error:
        print(f"overload: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("overload: stopped", file=sys.stderr)
        return 2
    print("\n" + ("\n".join(f"Missed: {each}" for each in problems) or "Every bound holds."))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
