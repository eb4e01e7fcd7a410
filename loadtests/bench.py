"""Requests per second of the service, beside programs that do less, and their processor time.

    make bench                                       about five minutes
    .venv/bin/python -m loadtests.bench --quick      one short round

wrk follows links of 10,000 and creates new ones, with all programs in turn and in several rounds.
The tables have the medians. All of them share one PostgreSQL of their own, which is removed at the
end. The exit code is 1 if a request was answered and not counted, or counted twice.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil
from tabulate import tabulate

from embedded_postgres.postgres import programs
from loadtests.servers import (
    NO_REFUSALS,
    OwnPostgres,
    RunningService,
    own_postgres,
    run_wrk,
    serving,
)

LINKS = 10_000  # with the keys k1, k2, …
FILL = f"""
    INSERT INTO shorturl_shorturl (key, target_url)
    SELECT 'k' || number, 'https://example.com/' || number
    FROM generate_series(1, {LINKS}) AS number
"""  # noqa: S608
COUNTED = "SELECT sum(hits)::bigint + count(*) FROM shorturl_shorturl"
UPDATE = "UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = 'k' || :n RETURNING target_url;"
INSERT = """
    INSERT INTO shorturl_shorturl (key, target_url) VALUES ('n' || :n, 'https://example.com/')
    ON CONFLICT (key) DO NOTHING RETURNING id;
"""
SQL = {  # for pgbench
    "one key": f"\\set n 1\n{UPDATE}",
    "random keys": f"\\set n random(1, {LINKS})\n{UPDATE}",
    "creates": f"\\set n random(1, 1000000000000)\n{INSERT.strip()}",
}
LUA = {  # for wrk
    "one key": 'wrk.path = "/k1"',
    "random keys": f"""
        math.randomseed(os.time())
        request = function() return wrk.format("GET", "/k" .. math.random({LINKS})) end
    """,
    "creates": """
        wrk.method, wrk.path = "POST", "/api/links"
        wrk.headers["Content-Type"] = "application/json"
        wrk.body = '{"target_url": "https://example.com/"}'
    """,
}


class Load(NamedTuple):
    """Requests of a kind of SQL and LUA, by a number of clients at once."""

    kind: str
    clients: int


LOADS = [Load(kind, clients) for kind in SQL for clients in (16, 64)]
Measurements = dict[tuple[str, Load], list[float]]  # of each round, by title and load


class Subject(NamedTuple):
    """A program that is measured: the service, or another one behind the same gunicorn."""

    title: str
    environment: dict[str, str]
    arguments: tuple[str, ...] = ()
    kinds: tuple[str, ...] = tuple(SQL)
    counts_hits: bool = True


NO_VISITS = {"SHORTURL_VISITS": "off"}
SUBJECTS = (
    Subject("this service", NO_VISITS),
    Subject("this service, which also records visits (the default)", {}),
    Subject(
        "the redirect as a plain Django view, on gunicorn's gthread",
        NO_VISITS,
        ("--worker-class=gthread", "project.wsgi:application"),
        kinds=("one key", "random keys"),
    ),
    Subject(
        "one line of ASGI on the same gunicorn, which counts nothing",
        {},
        ("loadtests.bench:one_line",),
        kinds=("one key",),
        counts_hits=False,
    ),
)
PGBENCH = "pgbench, PostgreSQL's own benchmark: the same statement for each request"


async def one_line(
    scope: dict[str, Any], receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Redirect every request, as an ASGI application."""
    location = [(b"location", b"https://example.com/"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 302, "headers": location})
    await send({"type": "http.response.body"})


class Bench:
    """The measurements: requests per second, and microseconds of processor time for a request."""

    def __init__(self, postgres: OwnPostgres, directory: Path, seconds: int) -> None:
        self.postgres = postgres
        self.script = directory / "script"
        self.seconds = seconds
        self.per_second: Measurements = defaultdict(list)
        self.processor_time: Measurements = defaultdict(list)
        self.miscounted = 0

    def execute(self, statement: str) -> int:
        """Execute a statement in autocommit; return the number that it selects, or 0."""
        with closing(self.postgres.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement)
            return int(cursor.fetchone()[0]) if cursor.description else 0

    def measure(self, subject: Subject, service: RunningService, load: Load) -> None:
        """Measure a program with wrk, and compare the redirects with what was counted."""
        self.script.write_text(LUA[load.kind])
        counted_before = self.execute(COUNTED)
        used_before = self.read_processor_seconds(service)
        options = ("-t1", "-s", str(self.script))
        acknowledged, sent = run_wrk(service.url, load.clients, self.seconds, *options)
        counted = self.execute(COUNTED) - counted_before
        if subject.counts_hits and not acknowledged <= counted <= sent:
            print(f"MISCOUNTED: {subject.title}, {load}: {acknowledged:,} as {counted:,}")
            self.miscounted += 1
        self.per_second[subject.title, load].append(acknowledged / self.seconds)
        for name, seconds in self.read_processor_seconds(service).items():
            microseconds = (seconds - used_before[name]) * 1e6 / acknowledged
            self.processor_time[f"{name}: {subject.title}", load].append(microseconds)

    def read_processor_seconds(self, service: RunningService) -> dict[str, float]:
        """Return the processor time of the service and of PostgreSQL so far."""
        processes = {"service": service.workers, "PostgreSQL": self.postgres.processes()}
        seconds = dict.fromkeys(processes, 0.0)
        for name in processes:
            for process in processes[name]:
                with suppress(psutil.NoSuchProcess):  # it has ended: its parent has its time
                    times = process.cpu_times()
                    seconds[name] += times.user + times.system
                    seconds[name] += times.children_user + times.children_system
        return seconds

    def measure_pgbench(self, load: Load) -> None:
        """Measure pgbench, whose clients send the statement of a request."""
        self.script.write_text(SQL[load.kind])
        options = f"--no-vacuum --protocol=prepared -c {load.clients} -j 2 -T {self.seconds}"
        files = [str(programs() / "pgbench"), "-f", str(self.script)]
        program = [*files, *options.split(), self.postgres.url]
        output = subprocess.check_output(program, text=True)  # noqa: S603
        (per_second,) = re.findall(r"tps = ([\d.]+) \(without", output)
        self.per_second[PGBENCH, load].append(float(per_second))


def format_table(measurements: Measurements) -> str:
    """Return the medians in Markdown."""
    rows = []
    for title in dict.fromkeys(title for title, _ in measurements):
        cells = [measurements.get((title, load)) for load in LOADS]
        rows.append([title, *(f"{median(cell):,.0f}" if cell else "–" for cell in cells)])
    headings = [f"{kind}, {clients} clients" for kind, clients in LOADS]
    alignment = ["left", *["right"] * len(LOADS)]
    return tabulate(rows, ["", *headings], "pipe", colalign=alignment, disable_numparse=True)


def main() -> int:
    """Measure, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description="Requests per second, beside known programs.")
    parser.add_argument("--quick", action="store_true", help="one round, a second for each load")
    seconds, rounds = (1, 1) if parser.parse_args().quick else (3, 3)
    machine = f"{os.cpu_count()} processors, {platform.system()} {platform.release()}"
    about = f"{datetime.now(UTC):%Y-%m-%d}, {machine}, load average before {os.getloadavg()[0]:.1f}"
    with ExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        directory = Path(stack.enter_context(TemporaryDirectory()))
        settings = {**NO_REFUSALS, "DATABASE_URL": postgres.url}
        services = [
            stack.enter_context(serving(*subject.arguments, **settings, **subject.environment))
            for subject in SUBJECTS
        ]
        bench = Bench(postgres, directory, seconds)
        bench.execute(FILL)
        bench.execute("VACUUM (FREEZE, ANALYZE) shorturl_shorturl")
        for number in range(rounds):
            print(f"bench: round {number + 1} of {rounds}", file=sys.stderr)
            for load in LOADS:
                bench.measure_pgbench(load)
                for subject, service in zip(SUBJECTS, services, strict=True):
                    if load.kind in subject.kinds:
                        bench.measure(subject, service, load)
    print(f"Requests per second:\n\n{format_table(bench.per_second)}\n")
    processor_time = format_table(bench.processor_time)
    print(f"Microseconds of processor time for a request:\n\n{processor_time}\n")
    print(f"Measured by `make bench`: {about}.")
    return min(1, bench.miscounted)


if __name__ == "__main__":
    sys.exit(main())
