"""Faults: inject them while people follow and create short URLs, and measure how long they wait.

PostgreSQL has committed an acknowledged hit, so no fault can lose it. A fault leaves some requests
without an answer, and it is unknown whether those were counted. But every wait ends, and the
service recovers without help.

    .venv/bin/python -m loadtests.faults kill_worker overload     # by default all: `make faults`

The exit code is 0 when every limit was kept and nothing was lost or counted twice, else 1.
"""

import argparse
import sys

from tabulate import tabulate

from loadtests.faults.injected import FAULTS, MAX_WAITS, USUAL_WAIT, Figure
from loadtests.faults.traffic import Traffic
from loadtests.records import Result
from loadtests.servers import OwnPostgres, RunningService, own_postgres, serving

MARGIN_SECONDS = 0.5  # for a machine that is busy with the load
COLUMNS = ("fault", "acknowledged ≤ counted ≤ sent", "figures")


def main() -> int:
    """Inject the faults of the command line, and print a table; return the exit code."""
    parser = argparse.ArgumentParser(description="Inject faults into a service under load.")
    known = ", ".join(FAULTS)
    parser.add_argument("faults", nargs="*", metavar="fault", help=f"by default all: {known}")
    text = "fail only for a wrong count or a missing recovery, as a busy machine misses times"
    parser.add_argument("--counts-only", action="store_true", help=text)
    options = parser.parse_args()
    if unknown := [name for name in options.faults if name not in FAULTS]:
        parser.error(f"there is no fault {unknown[0]!r}; there are {known}")
    rows: list[list[str]] = []
    failed = False
    with own_postgres() as postgres, serving(DATABASE_URL=postgres.url) as service:
        for name in options.faults or FAULTS:
            result, figures = measure(name, service, postgres)
            rows.append(describe(name, result, figures))
            print(*rows[-1], sep="  ", flush=True)
            failed |= has_failed(result, figures, counts_only=options.counts_only)
    print(f"\n{tabulate(rows, COLUMNS, 'pipe', disable_numparse=True)}")
    return int(failed)


def measure(
    name: str, service: RunningService, postgres: OwnPostgres
) -> tuple[Result, list[Figure]]:
    """Start users, inject the fault, wait for the service to recover, and reconcile.

    Raises TimeoutError if the service does not recover.
    """
    traffic = Traffic(service, postgres)
    traffic.wait_until_at_work()
    traffic.stats.reset_all()
    figures = FAULTS[name](traffic)
    traffic.wait_until_at_work()
    result = traffic.stop()
    longest = traffic.stats.total.max_response_time / 1000
    limit = MAX_WAITS.get(name, USUAL_WAIT) + MARGIN_SECONDS
    return result, [Figure("longest wait", longest, limit, unit="s"), *figures]


def has_failed(result: Result, figures: list[Figure], *, counts_only: bool) -> bool:
    """Return whether a count is wrong or, unless only counts matter, a limit was missed."""
    is_late = any(figure.is_missed for figure in figures)
    return result.exit_code != 0 or (is_late and not counts_only)


def describe(name: str, result: Result, figures: list[Figure]) -> list[str]:
    """Return the row of a fault in the table."""
    records = result.records
    counts = (records.acknowledged, result.verdict.counted, records.sent - records.refused)
    numbers = " ≤ ".join(f"{counter.total():,}" for counter in counts)
    texts = [str(figure) for figure in figures]
    texts += [f"MISSED: {figure}" for figure in figures if figure.is_missed]
    if result.exit_code:
        texts.append(f"MISSED: {result.rows('lost')}")
    return [name, numbers, "; ".join(texts)]


if __name__ == "__main__":
    sys.exit(main())
