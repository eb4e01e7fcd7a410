"""What the programs share that inject faults: the report of one fault, and the exit codes."""

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from django.core.exceptions import ImproperlyConfigured

from loadtests.faults.experiment import KindOfFault
from loadtests.faults.outcome import NotRecovered
from loadtests.harness import comparison
from loadtests.harness.lab_api import LabError
from loadtests.harness.own_pgbouncer import NotInstalled
from loadtests.harness.result import ExitCode
from loadtests.harness.serving import NotServed

UNMEASURED = NotInstalled, NotServed, LabError, ImproperlyConfigured


def measure(fault: KindOfFault, table: Callable[[], str]) -> ExitCode:
    """Run `fault`; print the `table`, and the figures that are not in it; return the exit code."""
    where = comparison.machine_and_load()
    with fault.place("") as place:
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


def reported(name: str, measure: Callable[[], ExitCode]) -> ExitCode:
    """Return the exit code of `measure`; print one line, which begins with `name`, of an error.

    On SIGTERM, what it has started is ended before this process is.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return measure()
    except NotRecovered as error:
        print(f"{name}: {error}", file=sys.stderr)
        return ExitCode.UNEXPECTED
    except (*UNMEASURED, OSError, subprocess.SubprocessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
    return ExitCode.INCONCLUSIVE
