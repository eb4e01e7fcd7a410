"""Faults: a worker is killed and PostgreSQL goes down, while everybody follows one link.

What it teaches: a hit that was acknowledged is a hit that PostgreSQL has committed, so no crash can
lose it. A crash leaves requests without an answer; whether those were counted is unknown, and the
result says how many there are. The service recovers without help.

How to run it:

    .venv/bin/python -m loadtests.faults            # each fault three times
    .venv/bin/python -m loadtests.faults --short    # once, for CI
    .venv/bin/python -m loadtests.faults --async    # a COMMIT that is not on the disk yet is lost

It runs lost_update.py against a gunicorn and a PostgreSQL of its own, on temporary data. The exit
code is 0 when the service recovered from each fault and no hit was lost or counted twice, 1 when
not, 2 when the run was inconclusive.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from django.core.exceptions import ImproperlyConfigured

from loadtests.faults import FAULTS
from loadtests.faults.experiment import Experiment, Inconclusive, NotRecovered, Recovery
from loadtests.harness import formats, options
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.reconciliation import ExitCode, LoadResult
from loadtests.harness.serving import NO_REFUSALS, ROOT, NotServed, serving, stop

WORKERS, THREADS = 4, 4
USERS = 16
ROUNDS, SHORT_ROUNDS = 3, 1
SCRIPT = "lost_update"


@contextmanager
def load(url: str, strategy: str, reports: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run lost_update.py for the length of the block; its result is in `reports` afterwards.

    Raises Inconclusive, with the last line that Locust printed, when there is none.
    """
    command = [sys.executable, "-m", "locust", "-f", f"loadtests/{SCRIPT}.py", "--headless"]
    command += ["--faults", "--strategy", strategy]
    command += ["--users", str(USERS), "--spawn-rate", str(USERS)]
    # Until it is stopped: how long the faults take is not known beforehand.
    command += ["--run-time", "0", "--host", url, "--reports", str(reports)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT) as process,  # noqa: S603
    ):
        try:
            yield process
        finally:
            stop(process)
        if not formats.json_path(reports, SCRIPT, strategy).exists():
            log.seek(0)
            printed = log.read().decode(errors="replace").strip().splitlines()
            raise Inconclusive(f"Locust gave no result: {(printed or ['it printed nothing'])[-1]}")


def run(
    strategy: str, *, rounds: int, reports: Path, postgres_options: str = ""
) -> tuple[list[Recovery], LoadResult]:
    """Inject the faults while `strategy` is under load; return the recoveries and the result.

    Raises NotRecovered, Inconclusive, and what serving() and own_postgres() do.
    """
    reports = reports.resolve()
    formats.json_path(reports, SCRIPT, strategy).unlink(missing_ok=True)
    environment = {"SHORTURL_LAB": "on", "SHORTURL_LAB_LOAD": "on"}
    environment |= {"WORKERS": str(WORKERS), "THREADS": str(THREADS), **NO_REFUSALS}
    with (
        own_postgres(options=postgres_options) as postgres,
        serving(DATABASE_URL=postgres.url, **environment) as service,
    ):
        with load(service.url, strategy, reports) as process:
            master = psutil.Process(service.process.pid)
            experiment = Experiment(master, WORKERS, postgres, process)
            experiment.run(FAULTS, rounds)
        return experiment.recoveries, formats.read(reports, SCRIPT, strategy)


def exit_code(result: LoadResult) -> ExitCode:
    """Return the exit code: a fault that affected no request proves nothing."""
    if result.exit_code is ExitCode.AS_EXPECTED and not (result.unknown or result.errors):
        return ExitCode.INCONCLUSIVE
    return result.exit_code


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.faults",
        description="Inject faults into a service under load.",
        epilog="\n".join(
            ["The faults, and what must hold:", *(f"  {f.name}: {f.must_hold}" for f in FAULTS)]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--short", action="store_true", help="each fault once")
    parser.add_argument(
        "--strategy",
        choices=[name for name in options.RESOLVING if name not in options.WRONG_RESOLVING],
        default="update_returning",
    )
    parser.add_argument(
        "--async",
        dest="options",
        action="store_const",
        const="-c synchronous_commit=off",
        default="",
        help="let PostgreSQL acknowledge a commit that is not on the disk yet",
    )
    parser.add_argument("--reports", type=Path, default=ROOT / "reports" / "faults")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up
    rounds = SHORT_ROUNDS if chosen.short else ROUNDS
    try:
        recoveries, result = run(
            chosen.strategy, rounds=rounds, reports=chosen.reports, postgres_options=chosen.options
        )
    except NotRecovered as error:
        print(f"faults: {error}", file=sys.stderr)
        return ExitCode.UNEXPECTED
    except (Inconclusive, NotServed, ImproperlyConfigured, OSError) as error:
        print(f"faults: {error}", file=sys.stderr)
        return ExitCode.INCONCLUSIVE
    except KeyboardInterrupt:
        print("faults: stopped", file=sys.stderr)
        return ExitCode.INCONCLUSIVE
    print(f"{USERS} users follow one link; time until hits are counted again:")
    for recovery in recoveries:
        print(f"  {recovery.seconds:5.2f} s  {recovery.fault}")
    print(f"\n{formats.text(result)}")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())
