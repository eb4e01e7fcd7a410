"""Every strategy under the same load, one after another in random order, and a table of all.

    make races
    .venv/bin/python -m loadtests.every_strategy --only naive update_returning --repeat 10
    .venv/bin/python -m loadtests.every_strategy --only same_hour last_use

Without --host it starts the service itself, with gunicorn, on a free port. It prints a table, and
writes reports/races.md and races.json. Beside them are the reports of each strategy's last run:
SCRIPT-STRATEGY.txt and .json by the ledger, .html by Locust. The exit code is 0 when every strategy
behaved as its table says, 1 when one did not, 2 when a run was inconclusive.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from loadtests.harness import comparison, reports
from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.measured_operations import KILLS, OPERATIONS
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import NotInstalled, own_pgbouncer
from loadtests.harness.result import ExitCode, LoadResult
from loadtests.harness.serving import NO_REFUSALS, ROOT, NotServed, serving, stop

SECONDS, USERS = 6, 16
GRACE = 90  # seconds beyond its time after which a run that hangs is ended


class PlannedRun(NamedTuple):
    """A script and the strategy it runs with."""

    script: str
    strategy: str


PLAN = [
    PlannedRun(one.script, strategy) for one in OPERATIONS.values() for strategy in one.strategies
]
OPERATION_OF = {one.script: name for name, one in OPERATIONS.items()}


class Interrupted(Exception):
    """A signal to stop has arrived."""


def main() -> int:
    """Run everything, print and write the report; return the exit code."""
    asked = arguments()

    def interrupt(*_: Any) -> None:
        raise Interrupted  # the context managers clean up

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        with service(asked.host, pgbouncer=asked.pgbouncer) as host:
            return measure(*host, asked)
    except (LabError, NotServed, NotInstalled, OSError) as error:
        print(f"races: {error}", file=sys.stderr)
    except Interrupted:
        print("races: stopped", file=sys.stderr)
    return ExitCode.INCONCLUSIVE


def arguments() -> argparse.Namespace:
    """Return the options of the command line; exit with 2 where one is invalid."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--host", help="a running service; without it, one is started")
    where.add_argument(
        "--pgbouncer",
        action="store_true",
        help="start the service on a separate PostgreSQL, through PgBouncer in transaction mode",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=sorted({name for run in PLAN for name in run}),
        metavar="NAME",
        help="only these strategies, in each operation that has one of the name, and these scripts",
    )
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="duration of each run")
    parser.add_argument("--users", type=positive, default=USERS)
    parser.add_argument("--repeat", type=positive, default=1, help="runs of each strategy")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the order")  # noqa: S311
    parser.add_argument("--reports", type=Path, default=Path("reports"))
    return parser.parse_args()


def positive(text: str) -> int:
    """Return `text` as a whole number from 1 to 10,000; raise ArgumentTypeError."""
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10000")
    return int(text)


@contextmanager
def service(host: str | None, *, pgbouncer: bool) -> Iterator[tuple[str, int]]:
    """Yield the address of the service, and the process id of its gunicorn.

    It is started for the block, unless `host` names a running service. The process id of that one
    is unknown, 0.
    """
    if host:
        yield host, 0
        return
    print("Starting the service …", flush=True)
    with ExitStack() as stack:
        database = {}
        if pgbouncer:
            postgres = stack.enter_context(own_postgres())
            url = stack.enter_context(own_pgbouncer(postgres.address)).url
            database = {"DATABASE_URL": url, "DATABASE_POOLER": "transaction"}
        started = stack.enter_context(serving(**NO_REFUSALS, **database))
        yield started.url, started.process.pid


def measure(host: str, master: int, asked: argparse.Namespace) -> int:
    """Run the chosen strategies against `host`, write the report, and return the exit code."""
    lab = Lab(host)
    asked.reports.mkdir(parents=True, exist_ok=True)  # before the runs: it may fail
    opened = lab.open_space(1)  # raises LabError if the service is down or its lab is off
    lab.close_space(opened["space"])
    runs = [run for run in PLAN if not asked.only or {*run} & {*asked.only}] * asked.repeat
    if not master:  # the workers cannot be killed
        runs = [run for run in runs if run.strategy not in KILLS]
    random.Random(asked.seed).shuffle(runs)  # noqa: S311
    print(f"{len(runs)} runs of {asked.seconds} s at {host}, in the order of seed {asked.seed}.")
    began = time.monotonic()
    command = f"python -m loadtests.every_strategy {' '.join(sys.argv[1:])}"
    about = {
        "command": command if len(sys.argv) > 1 else "make races",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "users": asked.users,
        "seconds": asked.seconds,
        "seed": asked.seed,
        "machine": comparison.machine_and_load(),
        "versions": opened["versions"],
    }
    results: list[LoadResult] = []
    for number, run in enumerate(runs, 1):
        head = f"[{number:>{len(str(len(runs)))}}/{len(runs)}] {run.script} {run.strategy}"
        print(f"{head:<44}", end=" ", flush=True)
        results.append(one(run, host, master, asked))
        print(comparison.line(results[-1]), flush=True)
        about |= {"left": len(runs) - number, "took": round(time.monotonic() - began)}
        about["notes"] = comparison.notes(results)
        comparison.write(results, about, asked.reports)
    comparison.tell(results, about, asked.reports)
    codes = {result.exit_code for result in results}
    bad = (ExitCode.UNEXPECTED, ExitCode.INCONCLUSIVE)
    return next((code for code in bad if code in codes), ExitCode.AS_EXPECTED)


def one(run: PlannedRun, host: str, master: int, asked: argparse.Namespace) -> LoadResult:
    """Return the result of one run, in a separate Locust process.

    If only a crash shows the fault of a strategy, workers of the service are killed.
    """
    kills = KILLS.get(run.strategy, 0)
    crash = ["--kill-worker-of", str(master), "--kills", str(kills)] if kills else []
    # fmt: off
    command = [
        sys.executable, "-m", "locust", "-f", f"loadtests/{run.script}.py", "--headless",
        "--only-summary", "--loglevel", "ERROR", "--host", host, "--strategy", run.strategy,
        "--users", str(asked.users), "--spawn-rate", str(asked.users),
        "--run-time", f"{asked.seconds}s", "--reports", str(asked.reports.resolve()), *crash,
    ]
    # fmt: on
    # If this run writes no result, an earlier one must not be read in its place.
    reports.path(asked.reports, *run, ".json").unlink(missing_ok=True)
    # A new session: Ctrl-C reaches this process alone. It ends the run before the service, so that
    # the run can still remove its key space.
    with subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=asked.seconds + GRACE)
        except subprocess.TimeoutExpired:
            errors = f"it did not end within {asked.seconds + GRACE} s"
        finally:
            stop(process)
    with suppress(FileNotFoundError):
        return reports.read(asked.reports, *run)
    reason = (errors.strip().splitlines() or ["it printed nothing"])[-1]
    return LoadResult(*run, OPERATION_OF[run.script], "unknown", reason=reason)


if __name__ == "__main__":
    sys.exit(main())
