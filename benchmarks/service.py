"""How many redirects per second the service makes, with every right way to count the hit.

    make bench                                       some five minutes
    .venv/bin/python -m benchmarks.service --quick   less than one

Each strategy has a gunicorn of its own, SHORTURL_RESOLVING=<strategy>, which answers real
redirects, GET /<key>, to wrk. For comparison pgbench sends the same statements to PostgreSQL with
as many clients, and a WSGI application of one line is served by the same gunicorn. So each row is a
share of what gunicorn could do, and of what the database could do. The links are in a database of
their own, which is dropped at the end.

The exit code is 0 when update_returning is as fast as required and no hit was lost, 1 when not,
2 when nothing could be measured.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import django
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from benchmarks import measurements, wrk
from loadtests.harness.serving import NotServed

REPORT = Path("reports/bench.json")
CONNECTIONS = (1, 16, 64)


def main() -> int:
    """Measure, print and write the report; return the exit code."""
    parser = argparse.ArgumentParser(description="Redirects per second with every right strategy.")
    parser.add_argument(
        "--quick", action="store_true", help="one round with 16 connections, for a quick look"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    try:
        wrk.find()
        django.setup()
        return measure(
            connections=(measurements.HOT.connections,) if options.quick else CONNECTIONS,
            rounds=1 if options.quick else 3,
        )
    except (wrk.Missing, NotServed, ImproperlyConfigured, DatabaseError) as error:
        print(f"bench: {str(error).strip().splitlines()[0]}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        program = Path(error.cmd[0]).name
        reason = (error.stderr.strip() or error.stdout.strip() or "no reason").splitlines()[-1]
        print(
            f"bench: {program} ended with exit code {error.returncode}: {reason}", file=sys.stderr
        )
    except subprocess.TimeoutExpired as error:
        program, limit = Path(error.cmd[0]).name, f"{error.timeout:.0f} seconds"
        print(f"bench: {program} did not end within {limit}", file=sys.stderr)
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
    return 2


def measure(*, connections: tuple[int, ...], rounds: int) -> int:
    """Run the rounds in a database of their own; print and write the report."""
    # These need Django to be set up.
    from benchmarks import machine, pgbench
    from benchmarks.bench import Bench
    from lab.scratch_database import scratch_database

    began = time.monotonic()
    program = pgbench.find()
    if program is None:
        print(f"bench: {pgbench.MISSING}", file=sys.stderr)
    about = machine.describe(wrk.version(), *([pgbench.version(program)] if program else []))
    with scratch_database():
        bench = Bench(connections, seconds=1)
        for number in range(1, rounds + 1):

            def progress(name: str, number: int = number) -> None:
                print(f"bench: round {number} of {rounds}: {name}", file=sys.stderr, flush=True)

            bench.round(program=program, progress=progress)
    report(bench.measurements, about, lost=bench.lost, seconds=time.monotonic() - began)
    return 0 if measurements.passes(bench.measurements, lost=bench.lost) else 1


def report(
    found: list[measurements.Measurement], about: dict[str, str], *, lost: int, seconds: float
) -> None:
    """Print the report as Markdown, and write it as JSON."""
    errors = sum(one.errors for one in found)
    print(f"# {sum(len(one.samples) for one in found)} measurements in {seconds:.0f} s\n")
    for name, value in about.items():
        print(f"- {name}: {value}")
    print(f"\n{measurements.markdown(found)}")
    ratios = measurements.ratios(found)
    print(f"\n{measurements.claim(ratios)}")
    print(f"Redirects answered and not counted: {lost:,}. Requests that failed: {errors:,}.")
    data = {**about, "seconds": round(seconds), "ratios": ratios, "lost": lost, "errors": errors}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({**data, "rows": measurements.as_data(found)}, indent=2) + "\n")
    print(f"\nWritten to {REPORT}.")


if __name__ == "__main__":
    sys.exit(main())
