"""The requests per second of the service, and of every right strategy.

    make bench                                       half an hour
    .venv/bin/python -m loadtests.bench.service --quick   less than one

wrk requests redirects, GET /<key>, and new links, POST /api/links, from a gunicorn. Three others
are measured for comparison in the same rounds: pgbench sends the same statements to PostgreSQL with
as many clients, an ASGI application of one line answers behind the same gunicorn, and with
--baseline the service of another checkout answers. The links are in a separate database, which is
dropped at the end. docs/benchmarks.md says how to read the report.

The exit code is 0 when all measured goals are met, every answer was counted and no request of the
service failed, 1 when not, 2 when nothing could be measured.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import django
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from loadtests.bench import wrk
from loadtests.harness.serving import NotServed

SIZES = (10_000, 1_000_000, 10_000_000)
BYTES = 500  # of disk for a link, with its indexes and write-ahead log


def main() -> int:
    """Measure, print and write the report; return the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    try:
        wrk.find()
        django.setup()
        return measure(options)
    except (wrk.Unusable, NotServed, ImproperlyConfigured, DatabaseError, OSError) as error:
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only one round, with 16 connections")
    parser.add_argument(
        "--links", type=int, choices=SIZES, default=SIZES[-1], help="the size of the largest table"
    )
    parser.add_argument(
        "--baseline", type=checkout, help="another checkout, to compare with side by side"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the report into README.md and docs/"
    )
    options = parser.parse_args()
    needed, free = options.links * BYTES, shutil.disk_usage(".").free
    if not options.quick and needed > free:
        parser.error(f"{options.links:,} links need {needed:,} bytes of disk; {free:,} are free")
    return options


def checkout(text: str) -> Path:
    """Return the path of a checkout of the service; raise ArgumentTypeError."""
    path = Path(text).resolve()
    if not (path / "project" / "gunicorn.py").exists():
        raise argparse.ArgumentTypeError(f"{text!r} is no checkout: project/gunicorn.py is missing")
    return path


def measure(options: argparse.Namespace) -> int:
    """Run all parts in a separate database; print and write the report."""
    # These need Django to be set up.
    from lab.scratch_database import scratch_database
    from loadtests.bench import database_in_use as database
    from loadtests.bench import machine, pgbench
    from loadtests.bench.bench import Bench, plan
    from loadtests.bench.report import Report

    began = time.monotonic()
    about = machine.describe(wrk.version(), pgbench.version())
    if options.baseline:
        about["baseline"] = machine.commit(options.baseline)
    with scratch_database():
        parts = plan(quick=options.quick, largest=options.links, baseline=options.baseline)
        print("bench: making the tables of links", file=sys.stderr)
        seconds, times = (0.5, 1) if options.quick else (1.0, 5)
        bench = Bench(parts, seconds=seconds, times=times)
        for part in parts:
            bench.run(part, progress=lambda text: print(f"bench: {text}", file=sys.stderr))
        about["roll-up at the end"] = database.rolled_up()
    seconds = time.monotonic() - began
    report = Report(parts, about, miscounted=bench.miscounted, seconds=seconds)
    report.write()
    if options.docs:
        report.update_documents()
    return 0 if report.passes else 1


if __name__ == "__main__":
    sys.exit(main())
