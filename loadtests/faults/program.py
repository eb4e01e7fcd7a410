"""One experiment as a program of its own: it prints a table, the counts and the other figures."""

from collections.abc import Callable
from datetime import UTC, datetime

from loadtests.faults.experiment import KindOfFault, Setup
from loadtests.harness import comparison
from loadtests.harness.reconciliation import ExitCode


def measure(fault: KindOfFault, table: Callable[[], str]) -> ExitCode:
    """Run `fault`; print the `table`, and the figures that are not in it; return the exit code."""
    where = comparison.machine_and_load()
    with fault.place(Setup()) as place:
        outcome = fault.run(place)
    counts = (
        f"{outcome.acknowledged:,} acknowledged ≤ {outcome.hits:,} hits ≤ {outcome.sent:,} sent"
    )
    lines = [f"redirects: {counts}"]
    lines += [str(figure) for figure in outcome.figures if ":" not in figure.what]
    lines += [f"MISSED: {each}" for each in outcome.missed()]
    listed = "\n".join(f"- {line}" for line in lines)
    print(f"{table()}\n\n{listed}\n\n{datetime.now(UTC):%Y-%m-%d}, on {where}.")
    return ExitCode.UNEXPECTED if outcome.missed() else ExitCode.AS_EXPECTED
