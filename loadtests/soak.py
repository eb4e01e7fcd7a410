"""Soak: mixed traffic at a steady rate for a long time, and the memory of the workers meanwhile.

What it teaches: a leak shows only after a while. Users follow a hot short URL and cold ones, create
others, and request the pages and the API. The memory of the workers has to be the same in the
middle and at the end, and nothing may be lost.

How to run it:

    .venv/bin/python -m loadtests.soak                   # 20 minutes
    .venv/bin/python -m loadtests.soak --minutes 1

RSS is the memory that all workers use, and USS the memory that would be free without them. Judge
yourself whether it grows. The exit code is 0 when every request took effect and every answer came
within a second, 1 when not, 2 when nothing was measured.
"""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import psutil
from tabulate import tabulate

from loadtests.every_strategy import positive
from loadtests.faults.experiment import Experiment, Figure, KindOfFault, reported
from loadtests.harness import comparison
from loadtests.harness.result import ExitCode

MEGABYTE = 1024 * 1024
KINDS = {"rss": "RSS, MB", "uss": "USS, MB"}


def soak(experiment: Experiment, *, seconds: float, samples: list[list[str]]) -> Iterator[Figure]:
    """Let the load go on; append samples at the beginning, in the middle and at the end."""
    samples.append(["beginning", *memory(experiment.master)])
    for when in ("middle", "end"):
        experiment.go_on(seconds / 2)
        samples.append([when, *memory(experiment.master)])
    yield Figure("requests", experiment.traffic.ledger.sent, 1, least=True)
    yield Figure("errors", experiment.traffic.ledger.errors.total(), 0)


def memory(master: psutil.Process) -> list[str]:
    """Return the memory of all workers of `master`, for each of KINDS."""
    infos = [worker.memory_full_info() for worker in master.children()]
    return [f"{sum(getattr(info, kind) for info in infos) / MEGABYTE:.1f}" for kind in KINDS]


def measure(fault: KindOfFault, samples: list[list[str]]) -> ExitCode:
    """Run the soak, print the samples and all figures, and return the exit code."""
    where = comparison.machine_and_load()
    with fault.place("") as place:
        outcome = fault.run(place)
    print(tabulate(samples, ("memory of the workers", *KINDS.values()), "pipe"))
    counts = (
        f"{outcome.acknowledged:,} acknowledged ≤ {outcome.hits:,} hits ≤ {outcome.sent:,} sent"
    )
    print(f"\n- redirects: {counts}")
    for line in [*outcome.figures, *(f"MISSED: {each}" for each in outcome.missed())]:
        print(f"- {line}")
    print(f"\n{datetime.now(UTC):%Y-%m-%d}, on {where}.")
    return ExitCode.UNEXPECTED if outcome.missed() else ExitCode.AS_EXPECTED


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Steady mixed traffic, and the workers' memory.")
    parser.add_argument("--minutes", type=positive, default=20)
    chosen, samples = parser.parse_args(), list[list[str]]()
    inject = partial(soak, seconds=60 * chosen.minutes, samples=samples)
    return reported("soak", lambda: measure(KindOfFault("soak", "", "", inject), samples))


if __name__ == "__main__":
    sys.exit(main())
