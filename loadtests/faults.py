"""Faults: a worker is killed and PostgreSQL goes away, while everybody follows one link.

What it teaches: a hit that was acknowledged is a hit that PostgreSQL has committed, so no crash can
lose it. What a crash does is to leave requests without an answer; whether those were counted,
nobody knows, and the verdict says how many there are. The service needs no help to come back.

How to run it:

    .venv/bin/python -m loadtests.faults            # each fault three times
    .venv/bin/python -m loadtests.faults --short    # once, for CI
    .venv/bin/python -m loadtests.faults --async    # a COMMIT that is not on the disk yet is lost

It runs lost_update.py against a gunicorn and a PostgreSQL of its own, on temporary data. The exit
code is 0 when the service came back after each fault and no hit was lost or counted twice, 1 when
not, 2 when that could not be judged.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from django.core.exceptions import ImproperlyConfigured

from loadtests.harness import options, result
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.serving import ROOT, NotServed, serving, stop
from loadtests.harness.trial import NotBack, NotJudged, Recovery, Trial
from loadtests.harness.verdict import Exit, Verdict

WORKERS, THREADS = 4, 4
USERS = 16
ROUNDS, SHORT_ROUNDS = 3, 1
WRONG = {"naive", "atomic_only", "f_expression_full_save"}


@contextmanager
def load(url: str, strategy: str, reports: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run lost_update.py for the length of the block; its verdict is in `reports` afterwards.

    Raises NotJudged, with the last line that Locust printed, when there is none.
    """
    script = str(Path(__file__).with_name("lost_update.py"))
    command = [sys.executable, "-m", "locust", "-f", script, "--headless", "--faults"]
    command += ["--strategy", strategy, "--users", str(USERS), "--spawn-rate", str(USERS)]
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
        if not verdict_path(reports, strategy).exists():
            log.seek(0)
            printed = log.read().decode(errors="replace").strip().splitlines()
            raise NotJudged(f"Locust gave no verdict: {(printed or ['it printed nothing'])[-1]}")


def verdict_path(reports: Path, strategy: str) -> Path:
    """Return where lost_update.py writes its verdict."""
    return reports / f"lost_update-{strategy}.json"


def run(
    strategy: str, *, rounds: int, reports: Path, postgres_options: str = ""
) -> tuple[list[Recovery], Verdict]:
    """Cause the faults while `strategy` is under load; return how it went.

    Raises NotBack, NotJudged, and what serving() and own_postgres() do.
    """
    path = verdict_path(reports, strategy)
    path.unlink(missing_ok=True)
    environment = {"SHORTURL_LAB": "on", "SHORTURL_LAB_LOAD": "on"}
    environment |= {"WORKERS": str(WORKERS), "THREADS": str(THREADS)}
    with (
        own_postgres(options=postgres_options) as postgres,
        serving(DATABASE_URL=postgres.url, **environment) as service,
    ):
        with load(service.url, strategy, reports) as process:
            trial = Trial(psutil.Process(service.process.pid), WORKERS, postgres, process)
            trial.run(rounds)
        return trial.recoveries, result.from_data(json.loads(path.read_text()))


def judge(verdict: Verdict) -> Exit:
    """Return the exit code: a fault that no request has met proves nothing."""
    if verdict.exit is Exit.AS_THE_TABLE_SAYS and not (verdict.unknown or verdict.errors):
        return Exit.NOT_JUDGED
    return verdict.exit


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Kill and restart things under load.")
    parser.add_argument("--short", action="store_true", help="each fault once")
    parser.add_argument(
        "--strategy",
        choices=[name for name in options.RESOLVING if name not in WRONG],
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
        recoveries, verdict = run(
            chosen.strategy, rounds=rounds, reports=chosen.reports, postgres_options=chosen.options
        )
    except NotBack as error:
        print(f"faults: {error}", file=sys.stderr)
        return Exit.OTHERWISE
    except (NotJudged, NotServed, ImproperlyConfigured, OSError) as error:
        print(f"faults: {error}", file=sys.stderr)
        return Exit.NOT_JUDGED
    except KeyboardInterrupt:
        print("faults: stopped", file=sys.stderr)
        return Exit.NOT_JUDGED
    print(f"{USERS} users follow one link; hits are counted again after")
    for recovery in recoveries:
        print(f"  {recovery.seconds:5.2f} s  {recovery.fault}")
    print(f"\n{result.text(verdict)}")
    return judge(verdict)


if __name__ == "__main__":
    sys.exit(main())
