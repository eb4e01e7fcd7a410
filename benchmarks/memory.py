"""The memory of the workers over a million redirects, where a leak would show.

    python -m benchmarks.memory                        some ten minutes
    python -m benchmarks.memory --redirects 100000

wrk follows random short URLs on 16 connections, as fast as they are answered. RSS is the memory of
all workers in use, and USS what would be free without them. The first tenth fills what grows once:
the connections to PostgreSQL, caches and queues. The links are in a database of their own, which is
dropped at the end. The exit code is 0 when every redirect was counted, 1 when not, 2 when nothing
was measured.
"""

import argparse
import sys

import psutil
from tabulate import tabulate

from benchmarks import wrk
from benchmarks.program import program

REDIRECTS = 1_000_000
LEAST = 10_000
PARTS = (0.1, 0.5, 1)  # of the redirects; the memory is looked at after each
SECONDS = 5.0  # that wrk runs without a pause


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--redirects", type=number, default=REDIRECTS)
    redirects = parser.parse_args().redirects
    return program("memory", lambda: measure(redirects))


def number(text: str) -> int:
    """Return `text` as a whole number of redirects; raise ArgumentTypeError."""
    if not text.isdecimal() or not LEAST <= int(text) <= 100 * REDIRECTS:
        limits = f"from {LEAST} to {100 * REDIRECTS}"
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {limits}")
    return int(text)


def measure(redirects: int) -> int:
    """Send so many redirects, and print the memory meanwhile; return the exit code."""
    # These need Django to be set up.
    from benchmarks import machine
    from benchmarks.bench import Subject, served
    from benchmarks.link_tables import LinkTables, hits_and_links
    from benchmarks.measurements import LINKS, Load
    from lab.scratch_database import scratch_database
    from loadtests.harness import worker_memory

    load, rows, answered, miscounted = Load(keys="random"), list[list[str]](), 0, 0
    with scratch_database():
        about = machine.describe(wrk.version())
        LinkTables([LINKS]).use(LINKS)
        with served(Subject("the service", [load])) as service:
            master = psutil.Process(service.process.pid)
            for part in PARTS:
                while answered < part * redirects:
                    before = sum(hits_and_links())
                    sample = wrk.run(service.url, seconds=SECONDS, **vars(load))
                    miscounted += sample.miscounted(sum(hits_and_links()) - before)
                    answered += sample.requests
                rows.append([f"{answered:,}", *worker_memory.of_workers(master)])
    titles = ("redirects", *worker_memory.KINDS.values())
    print(tabulate(rows, titles, "pipe", colalign=["right"] * 3, disable_numparse=True))
    print(f"\n{miscounted:,} miscounted, on {about['machine']}, {about['date']}")
    return 0 if not miscounted else 1


if __name__ == "__main__":
    sys.exit(main())
