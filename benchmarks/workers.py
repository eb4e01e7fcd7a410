"""How many workers, and how many threads in each.

    python -m benchmarks.workers                       some four minutes

Several services count redirects, and record no visits, each with its own WORKERS and THREADS. wrk
follows one key and random ones, with 16 and with 64 connections, a second at a time. The table has
the redirects per second as multiples of the first service's: the medians of five rounds, in each of
which all services are asked under one load before the next. The links are in a database of their
own, which is dropped at the end. The exit code is 0 when every redirect was counted, 1 when not, 2
when nothing was measured.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from tabulate import tabulate

from benchmarks import wrk
from benchmarks.program import program

if TYPE_CHECKING:
    from benchmarks.bench import Part

SERVICES = [
    ("update_returning", 4, 4),
    ("update_returning", 2, 16),
    ("combined", 4, 4),
    ("combined", 2, 8),
    ("combined", 2, 12),
    ("combined", 2, 16),
]
ROUNDS = 5
SECONDS = 1.0  # of a load, in each round


def main() -> int:
    """Run from the command line; return the exit code."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    return program("workers", measure)


def measure() -> int:
    """Measure all services, and print the table; return the exit code."""
    # These need Django to be set up.
    from benchmarks import machine
    from benchmarks.bench import Bench
    from lab.scratch_database import scratch_database

    part = plan()
    with scratch_database():
        about = machine.describe(wrk.version())
        bench = Bench([part], seconds=SECONDS, program=None)
        bench.run(part, progress=lambda text: print(f"workers: {text}", file=sys.stderr))
    print(table(part))
    print(f"\n{bench.miscounted:,} miscounted, on {about['machine']}, {about['date']}")
    return 0 if not bench.miscounted else 1


def plan() -> "Part":
    """Return what there is to measure: all services, side by side."""
    from benchmarks.bench import NO_VISITS, NOT_REFUSED, Part, Subject
    from benchmarks.measurements import Load

    loads = [Load(number, keys) for keys in ("one", "random") for number in (16, 64)]
    subjects = []
    for strategy, workers, threads in SERVICES:
        environment = {"WORKERS": str(workers), "THREADS": str(threads), **NO_VISITS, **NOT_REFUSED}
        environment["SHORTURL_RESOLVING"] = strategy
        name = f"{strategy} {workers} × {threads}"
        subjects.append(Subject(name, loads, environment=environment))
    return Part("Workers and threads", [subjects], ROUNDS)


def table(part: "Part") -> str:
    """Return the rounds' medians of each service and load, as multiples of the first service's."""
    from benchmarks.measurements import median_ratio

    (subjects,) = part.groups
    loads = subjects[0].loads
    rates = {
        measured: [reading.sample.per_second for reading in found.readings]
        for measured, found in part.found.items()
    }
    rows = []
    for one in subjects:
        strategy, _, size = one.name.partition(" ")
        pairs = [(rates[one.name, load], rates[subjects[0].name, load]) for load in loads]
        rows.append([f"`{strategy}`", size, *(f"{median_ratio(*pair):.2f}" for pair in pairs)])
    titles = ["strategy", "workers × threads"]
    titles += [f"{load.asks_for}, {load.connections} connections" for load in loads]
    alignment = ["left", "left", *["right"] * len(loads)]
    return tabulate(rows, titles, "pipe", colalign=alignment, disable_numparse=True)


if __name__ == "__main__":
    sys.exit(main())
