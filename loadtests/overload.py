"""Overload: more requests arrive than can be answered, and the service goes on at its best pace.

What it teaches: a queue without an end turns overload into a failure for everybody, because each
request is answered after its client has left. Here the queue is short. What cannot be answered in
time is refused at once, what is answered stays quick, and the goodput, the redirects answered in a
second, does not fall however many arrive.

How to run it, against a service of its own:

    .venv/bin/python -m loadtests.overload             # 1, 2, 5 and 10 times the capacity
    .venv/bin/python -m loadtests.overload --quick     # 1 and 5 times

The load is open: requests arrive at a fixed rate, each on a connection of its own, whether earlier
ones were answered or not. The capacity is the best goodput of a series of rates, beside the users
of every fault. It is offered again before and after each load, because the speed of a machine
changes: "at 1 ×" is the mean of the two. "client" is the share of the machine's processors that the
client had meanwhile, and the service had not. The exit code is 0 when every bound held, 1 when not,
2 when nothing was measured.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.open_loop import OfferedLoad, overload
from loadtests.faults.single import program

ALL, FEW = (1, 2, 5, 10), (1, 5)
COLUMNS = "load offered/s goodput/s at_1_× client refused/s no_answer p50 p99 longest"


def table(multiples: Sequence[int], loads: Sequence[OfferedLoad]) -> str:
    """Return the curve of the goodput as Markdown."""
    rows = [
        (
            f"{multiple} ×",
            f"{load.rate:,.0f}",
            f"{load.goodput:,.0f}",
            f"{load.usual:,.0f}",
            f"{load.taken:.0%}",
            f"{load.statuses['503'] / load.seconds:,.0f}",
            f"{load.failed:,}",
            *(f"{load.quantile(share) * 1000:,.0f} ms" for share in (0.5, 0.99, 1)),
        )
        for multiple, load in zip(multiples, loads, strict=True)
    ]
    titles = [name.replace("_", " ") for name in COLUMNS.split()]
    alignment = ["right"] * len(titles)
    return tabulate(rows, titles, "pipe", colalign=alignment, disable_numparse=True)


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Open load of a multiple of the capacity.")
    parser.add_argument("--quick", action="store_true", help="1 and 5 times the capacity only")
    multiples = FEW if parser.parse_args().quick else ALL
    loads: list[OfferedLoad] = []

    def offered(experiment: Experiment) -> Iterator[Figure]:
        return overload(experiment, multiples, loads)

    return program("overload", offered, lambda: table(multiples, loads))


if __name__ == "__main__":
    sys.exit(main())
