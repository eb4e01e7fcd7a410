"""Overload: more requests arrive than can be answered, and the goodput stays.

What it teaches: with an endless queue, overload fails every client, because each request is
answered after its client has left. Behind HAProxy with the limits of deploy/haproxy.cfg the queue
is short. A request that cannot be answered in time is refused, the others are answered quickly, and
the goodput, the redirects per second, does not fall. gunicorn alone also keeps its goodput. But it
refuses a request only after it has accepted and read it, so many connections wait in the kernel and
are not answered in time.

How to run it; it starts a service:

    .venv/bin/python -m loadtests.overload --haproxy   # 1, 2, 5 and 10 times the capacity
    .venv/bin/python -m loadtests.overload --quick     # 1 and 5 times, without a proxy

The load is open: requests arrive at a fixed rate, each on a new connection, even if earlier ones
are not answered yet. The capacity is the best goodput of a series of rates, with the users of the
fault tests at work. It is offered again before and after each load, because the speed of a machine
changes. "at 1 ×" is the mean of the two. "client" is the share of the machine's processors that the
client took from the service. The exit code is 0 when every bound held, 1 when not, 2 when nothing
was measured. Without HAProxy only the goodput and the counts have bounds.
"""

import argparse
import sys
from functools import partial

from tabulate import tabulate

from loadtests.faults.experiment import KindOfFault, measure, reported
from loadtests.faults.open_loop import OfferedLoad, overload
from loadtests.faults.places import haproxy_before_service

TITLES = ["load", "offered/s", "goodput/s", "at 1 ×", "client", "refused/s", "no answer"]
TITLES += ["p50", "p99", "longest"]


def table(multiples: tuple[int, ...], loads: list[OfferedLoad]) -> str:
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
    alignment = ["right"] * len(TITLES)
    return tabulate(rows, TITLES, "pipe", colalign=alignment, disable_numparse=True)


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Open load of a multiple of the capacity.")
    parser.add_argument("--quick", action="store_true", help="1 and 5 times the capacity only")
    parser.add_argument("--haproxy", action="store_true", help="through HAProxy, with its limits")
    chosen = parser.parse_args()
    multiples, loads = (1, 5) if chosen.quick else (1, 2, 5, 10), list[OfferedLoad]()
    inject = partial(overload, multiples=multiples, bounded=chosen.haproxy, told=loads.append)
    if chosen.haproxy:
        fault = KindOfFault("overload", "", "", inject, haproxy_before_service)
    else:
        fault = KindOfFault("overload", "", "", inject, bound=None, probes=False)
    return reported("overload", lambda: measure(fault, lambda: table(multiples, loads)))


if __name__ == "__main__":
    sys.exit(main())
