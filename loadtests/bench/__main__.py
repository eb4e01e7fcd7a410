"""The requests per second of the service, and of every right strategy.

    make bench                                       20 minutes
    .venv/bin/python -m loadtests.bench --quick      a minute

wrk requests redirects, GET /<key>, and new links, POST /api/links, from a gunicorn. Three others
are measured for comparison in the same rounds: pgbench sends the same statements to PostgreSQL with
as many clients, an ASGI application of one line answers behind the same gunicorn, and with
--baseline the service of another checkout answers. The strategies are measured at the endpoints of
the lab. All databases are in a PostgreSQL of their own, which is removed at the end.
docs/benchmarks.md says how to read the report.

The exit code is 0 when all measured goals are met, every answer was counted and no redirect of the
service failed, 1 when not, 2 when nothing could be measured.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import django
from django.core.exceptions import ImproperlyConfigured

from embedded_postgres.postgres import create_database
from loadtests.bench import machine, wrk
from loadtests.bench.measurements import LINKS
from loadtests.bench.services import VISITS, Database, Gunicorn
from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.serving import NotServed, manage

KEY_LENGTH = 3  # of the strategies' new links


def main() -> int:
    """Measure and print; return the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up
    try:
        wrk.find()
        with own_postgres() as server:
            create_database("baseline", running=server.running)
            ours, theirs = (
                Database(server.address),
                Database({**server.address, "dbname": "baseline"}),
            )
            return measure(options, ours, theirs)
    except (wrk.Unusable, NotServed, LabError, ImproperlyConfigured, OSError) as error:
        reason = str(error).strip().splitlines()[0]
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or error.stdout.strip() or "no reason").splitlines()[-1]
        ended = f"{Path(error.cmd[0]).name} ended with exit code {error.returncode}"
        reason = f"{ended}: {said}"
    except subprocess.TimeoutExpired as error:
        reason = f"{Path(error.cmd[0]).name} did not end within {error.timeout:.0f} seconds"
    except KeyboardInterrupt:
        reason = "stopped"
    print(f"bench: {reason}", file=sys.stderr)
    return 2


def arguments() -> argparse.Namespace:
    """Return the options of the command line; exit with 2 where one is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench", description="How fast it is."
    )
    parser.add_argument("--quick", action="store_true", help="only one round, with 16 connections")
    parser.add_argument(
        "--baseline", type=checkout, help="another checkout, to compare with side by side"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the report into README.md and docs/"
    )
    return parser.parse_args()


def checkout(text: str) -> Path:
    """Return the path of a checkout of the service; raise ArgumentTypeError."""
    path = Path(text).resolve()
    if not (path / "project" / "gunicorn.py").exists():
        raise argparse.ArgumentTypeError(f"{text!r} is no checkout: project/gunicorn.py is missing")
    return path


def measure(options: argparse.Namespace, ours: Database, theirs: Database) -> int:
    """Run all parts in the two databases; print the report."""
    began = time.monotonic()
    baseline: Path | None = options.baseline
    space = prepared(Gunicorn(ours, lab=True))
    if baseline:
        prepared(Gunicorn(theirs, baseline))
    # The strategies run in this process once, to record their statements.
    os.environ |= {"DATABASE_URL": ours.url, "SHORTURL_LOCAL": "on"}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from loadtests.bench import pgbench
    from loadtests.bench.bench import Bench, plan
    from loadtests.bench.report import Report

    about = machine.describe(ours, wrk.version(), pgbench.version())
    if baseline:
        about["baseline"] = machine.commit(baseline)
    parts = plan(ours, space, (theirs, baseline) if baseline else None, quick=options.quick)
    seconds, times = (0.5, 1) if options.quick else (1.0, 3)
    bench = Bench(seconds=seconds, times=times)
    bench.run(parts, progress=lambda text: print(f"bench: {text}", file=sys.stderr))
    about["roll-up at the end"] = rolled_up(ours)
    seconds = time.monotonic() - began
    report = Report(parts, about, miscounted=bench.miscounted, seconds=seconds)
    print(report.markdown())
    if options.docs:
        report.update_documents()
    return 0 if report.passes else 1


def prepared(gunicorn: Gunicorn) -> str:
    """Have a service migrate its database, and make the links.

    Returns a key space of its lab, if that is on; the strategies follow the links there.
    """
    space = ""
    with gunicorn.start() as service:
        if gunicorn.lab:
            space = str(Lab(service.url).open_space(KEY_LENGTH)["space"])
    gunicorn.database.fill(["k", f"{space}-0-"], LINKS)
    return space


def rolled_up(database: Database) -> str:
    """Roll up all visits; return how many there were, and the time for each of them."""
    visits, began = database.number(VISITS), time.monotonic()
    with manage("roll_up", database.url) as process:
        process.wait()
    seconds = time.monotonic() - began
    return f"{visits:,} visits in {seconds:.0f} s, {1e6 * seconds / max(visits, 1):.1f} µs each"


if __name__ == "__main__":
    sys.exit(main())
