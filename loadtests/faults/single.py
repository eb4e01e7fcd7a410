"""An experiment by itself, as a program: it prints what was measured, and ends with the verdict."""

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


def program(
    name: str, inject: Callable[[Experiment], Iterable[Figure]], table: Callable[[], str]
) -> ExitCode:
    """Run `inject` in a service of its own, then print the `table` and all figures.

    Errors are one line, which begins with `name`. Returns the exit code.
    """
    try:
        with plain(Setup()) as place:
            outcome = run(InjectedFault(inject, "", "", QUICK), place)
    except NotRecovered as error:
        print(f"{name}: {error}", file=sys.stderr)
        return ExitCode.UNEXPECTED
    except (
        *(Skipped, NotServed, LabError, ImproperlyConfigured, OSError),
        subprocess.SubprocessError,
    ) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return ExitCode.INCONCLUSIVE
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return ExitCode.INCONCLUSIVE
    print(f"{table()}\n\n{summary(outcome)}\n")
    print(f"{datetime.now(UTC):%Y-%m-%d}, on {comparison.machine()}.")
    return ExitCode.UNEXPECTED if outcome.missed() else ExitCode.AS_EXPECTED


def summary(outcome: FaultOutcome) -> str:
    """Return the counts, the figures that are not in the table, and what was missed."""
    counts = (outcome.acknowledged, outcome.hits, outcome.sent)
    redirects = "{:,} acknowledged ≤ {:,} hits ≤ {:,} sent".format(*counts)
    lines = [f"- redirects: {redirects}"]
    lines += [f"- {figure}" for figure in outcome.figures if ":" not in figure.what]
    lines += [f"- MISSED: {each}" for each in outcome.missed()]
    return "\n".join(lines)
