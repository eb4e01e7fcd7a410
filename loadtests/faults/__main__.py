"""Faults: inject them while users follow and create short URLs, and measure how long requests wait.

What it teaches: PostgreSQL has committed an acknowledged hit, so no fault can lose it. A fault
leaves some requests without an answer, and it is unknown whether those were counted. But every wait
ends, every refusal is quick, and the service recovers without help.

How to run it:

    .venv/bin/python -m loadtests.faults                 # all of them: `make faults`
    .venv/bin/python -m loadtests.faults kill_worker locked_row
    .venv/bin/python -m loadtests.faults crash_postgres --async    # loses hits

The faults are injected into a gunicorn and a PostgreSQL on temporary data. The exit code is 0 when
every bound was kept and no hit was lost or counted twice, 1 when not, 2 when nothing was measured.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tabulate import tabulate

from loadtests.faults.experiment import FaultOutcome, KindOfFault, NotRecovered, reported
from loadtests.faults.table import FAULTS
from loadtests.harness import comparison
from loadtests.harness.lab_api import LabError
from loadtests.harness.own_proxies import NotInstalled
from loadtests.harness.result import ExitCode

Result = FaultOutcome | NotInstalled | NotRecovered
COLUMNS = ("fault", "acknowledged ≤ hits ≤ sent", "longest wait", "limit", "besides")


def outcomes(faults: Sequence[KindOfFault], options: str) -> Iterator[tuple[KindOfFault, Result]]:
    """Run the faults, and yield the result of each. Consecutive faults in one place share it.

    `options` are those of the connections to PostgreSQL. Raises NotServed, and what own_postgres()
    does.
    """
    waiting = [*faults]
    while waiting:
        place_of = waiting[0].place
        try:
            with place_of(options) as place:
                while waiting and waiting[0].place is place_of:
                    outcome = waiting[0].run(place)
                    yield waiting.pop(0), outcome
        except (NotInstalled, NotRecovered) as reason:
            yield waiting.pop(0), reason
        except LabError as error:
            yield waiting.pop(0), NotRecovered(str(error))


def cells(fault: KindOfFault, outcome: Result) -> list[str]:
    if isinstance(outcome, NotInstalled):
        return [fault.name, f"skipped: {outcome}", "", "", ""]
    if isinstance(outcome, NotRecovered):
        return [fault.name, f"MISSED: {outcome}", "", bound(fault), ""]
    longest, *others = outcome.figures
    besides = [str(figure) for figure in others]
    if missed := outcome.missed():
        besides.append(f"MISSED: {', '.join(missed)}")
    counts = f"{outcome.acknowledged:,} ≤ {outcome.hits:,} ≤ {outcome.sent:,}"
    longest_wait = f"{longest.measured:.2f} s"
    return [fault.name, counts, longest_wait, bound(fault), "; ".join(besides)]


def bound(fault: KindOfFault) -> str:
    return "none" if fault.bound is None else f"{fault.bound:g} s"


def exit_code(results: Sequence[Result], *, counts_only: bool = False) -> ExitCode:
    """Return the exit code. With `counts_only` a missed time is no failure."""
    tried = [result for result in results if not isinstance(result, NotInstalled)]
    for result in tried:
        if isinstance(result, NotRecovered) or result.miscounted():
            return ExitCode.UNEXPECTED
        if result.missed() and not counts_only:
            return ExitCode.UNEXPECTED
    return ExitCode.AS_EXPECTED if tried else ExitCode.INCONCLUSIVE


def arguments() -> argparse.Namespace:
    """Return the options of the command line; exit with 2 where one is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.faults", description="Inject faults into a service under load."
    )
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="only these; see --list")
    text = "fail only for a wrong count or a missing recovery, as a busy machine misses times"
    parser.add_argument("--counts-only", action="store_true", help=text)
    parser.add_argument("--list", action="store_true", help="list the faults, and end")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documents")
    parser.add_argument(
        "--async",
        dest="options",
        action="store_const",
        const="-c synchronous_commit=off",
        default="",
        help="let PostgreSQL acknowledge a commit before it is on the disk",
    )
    chosen, by_name = parser.parse_args(), {fault.name: fault for fault in FAULTS}
    for name in chosen.faults:
        if name not in by_name:
            known = ", ".join(by_name)
            parser.exit(2, f"faults: there is no fault {name!r}; there are {known}\n")
    chosen.faults = [by_name[name] for name in chosen.faults] or [*FAULTS]
    return chosen


def line(cells: Sequence[str]) -> str:
    name, counts, wait, most, besides = cells
    held = f"{wait:>8}" + (f" ≤ {most}" if wait and most != "none" else "")
    return f"{name:<19} {counts:<23} {held:<17} {besides}".rstrip()


def measure(chosen: argparse.Namespace) -> ExitCode:
    """Run the chosen faults, print a line of each, or a table of all; return the exit code."""
    began, where = datetime.now(UTC), comparison.machine_and_load()
    results, rows = [], []
    for fault, outcome in outcomes(chosen.faults, chosen.options):
        results.append(outcome)
        rows.append(cells(fault, outcome))
        print(line(rows[-1]), file=sys.stderr if chosen.markdown else sys.stdout, flush=True)
    if chosen.markdown:
        print(tabulate(rows, COLUMNS, "pipe", disable_numparse=True))
        took = (datetime.now(UTC) - began).seconds
        print(f"\n{began:%Y-%m-%d}, in {took} s, on {where}.")
    return exit_code(results, counts_only=chosen.counts_only)


def main() -> int:
    """Run from the command line; return the exit code."""
    chosen = arguments()
    if chosen.list:
        listed = [(f.name, f.does, f.must_hold, bound(f)) for f in chosen.faults]
        style = "pipe" if chosen.markdown else "plain"
        print(tabulate(listed, ("fault", "what is done", "what must hold", "limit"), style))
        return 0
    return reported("faults", lambda: measure(chosen))


if __name__ == "__main__":
    sys.exit(main())
