"""An experiment by itself, as a program, which prints what was measured or why nothing was."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from django.core.exceptions import ImproperlyConfigured

from loadtests.faults.experiment import (
    QUICK,
    Experiment,
    FaultOutcome,
    Figure,
    InjectedFault,
    NotRecovered,
    Setup,
    Skipped,
    plain,
    run,
)
from loadtests.harness import comparison
from loadtests.harness.lab_api import LabError
from loadtests.harness.reconciliation import ExitCode
from loadtests.harness.serving import NotServed


def reported(name: str, measure: Callable[[], ExitCode]) -> ExitCode:
    """Return the exit code of `measure`; print one line, which begins with `name`, of an error."""
    try:
        return measure()
    except NotRecovered as error:
        print(f"{name}: {error}", file=sys.stderr)
        return ExitCode.UNEXPECTED
    except (Skipped, NotServed, LabError, ImproperlyConfigured) as error:
        print(f"{name}: {error}", file=sys.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
    return ExitCode.INCONCLUSIVE


def program(
    name: str, inject: Callable[[Experiment], Iterable[Figure]], table: Callable[[], str]
) -> ExitCode:
    """Run `inject` in a service of its own; print the `table` and the figures, or the error.

    Returns the exit code.
    """

    def measure() -> ExitCode:
        where = comparison.machine_and_load()
        with plain(Setup()) as place:
            outcome = run(InjectedFault(inject, "", "", QUICK), place)
        print(f"{table()}\n\n{summary(outcome)}\n\n{datetime.now(UTC):%Y-%m-%d}, on {where}.")
        return ExitCode.UNEXPECTED if outcome.missed() else ExitCode.AS_EXPECTED

    return reported(name, measure)


def summary(outcome: FaultOutcome) -> str:
    """Return the counts, the figures that are not in the table, and what was missed."""
    counts = (outcome.acknowledged, outcome.hits, outcome.sent)
    redirects = "{:,} acknowledged ≤ {:,} hits ≤ {:,} sent".format(*counts)
    lines = [f"- redirects: {redirects}"]
    lines += [f"- {figure}" for figure in outcome.figures if ":" not in figure.what]
    lines += [f"- MISSED: {each}" for each in outcome.missed()]
    return "\n".join(lines)
