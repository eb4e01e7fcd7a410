"""Requests per second of the service, beside programs that do less, and their processor time.

    make bench                                       about six minutes
    .venv/bin/python -m loadtests.bench --quick      one short round

wrk follows 10,000 links and creates new ones, with all programs in turn and in several rounds.
The tables have the medians, and where the time of a redirect goes. All programs share one
PostgreSQL of their own, which is removed at the end. The exit code is 1 if a request was answered
and not counted, or counted twice.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from statistics import median
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from embedded_postgres.postgres import programs
from loadtests import measuring, profiling
from loadtests.measuring import FILL, ONE_KEY, RANDOM_KEYS
from loadtests.servers import (
    DATABASE,
    NO_REFUSALS,
    OwnPostgres,
    RunningService,
    own_postgres,
    serving,
)

LINKS = 10_000
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
    "one key": ONE_KEY,
    "random keys": RANDOM_KEYS.format(links=LINKS),
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
    database: str = DATABASE


NO_VISITS = {"SHORTURL_VISITS": "off"}
SUBJECTS = (
    Subject("this service", NO_VISITS),
    Subject("this service, which also records visits (the default)", {}),
    Subject(
        "the same with a fresh database, whose links PostgreSQL has no statistics of",
        {},
        kinds=("one key", "random keys"),
        database="fresh",
    ),
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

    def __init__(self, postgres: OwnPostgres, seconds: int) -> None:
        self.postgres = postgres
        self.seconds = seconds
        self.per_second: Measurements = defaultdict(list)
        self.processor_time: Measurements = defaultdict(list)
        self.miscounted = 0

    def measure(self, subject: Subject, service: RunningService, load: Load) -> None:
        """Measure a program with wrk, and compare the redirects with what was counted."""
        measured = measuring.measure(
            self.postgres,
            service,
            LUA[load.kind],
            load.clients,
            self.seconds,
            database=subject.database,
        )
        if subject.counts_hits and not measured.is_exact:
            print(f"MISCOUNTED: {subject.title}, {load}: {measured}")
            self.miscounted += 1
        self.per_second[subject.title, load].append(measured.per_second)
        for name, microseconds in measured.microseconds.items():
            self.processor_time[f"{name}: {subject.title}", load].append(microseconds)

    def measure_pgbench(self, load: Load) -> None:
        """Measure pgbench, whose clients send the statement of a request."""
        options = f"--no-vacuum --protocol=prepared -c {load.clients} -j 2 -T {self.seconds}"
        with NamedTemporaryFile("w") as script:
            script.write(SQL[load.kind])
            script.flush()
            program = [str(programs() / "pgbench"), "-f", script.name, *options.split()]
            output = subprocess.check_output([*program, self.postgres.url], text=True)  # noqa: S603
        (per_second,) = re.findall(r"tps = ([\d.]+) \(without", output)
        self.per_second[PGBENCH, load].append(float(per_second))


def fill(postgres: OwnPostgres) -> None:
    """Make the links of both databases. Those of the fresh one are never vacuumed or analyzed."""
    statement = FILL.format(first=1, last=LINKS)
    measuring.execute(postgres, statement)
    measuring.execute(postgres, "VACUUM (FREEZE, ANALYZE) shorturl_shorturl")
    never = "ALTER TABLE shorturl_shorturl SET (autovacuum_enabled = off)"
    measuring.execute(postgres, f"{never}; {statement}", "fresh")


def format_medians(measurements: Measurements) -> str:
    """Return the medians in Markdown."""
    rows = []
    for title in dict.fromkeys(title for title, _ in measurements):
        cells = [measurements.get((title, load)) for load in LOADS]
        rows.append([title, *(f"{median(cell):,.0f}" if cell else "–" for cell in cells)])
    headings = [f"{kind}, {clients} clients" for kind, clients in LOADS]
    return measuring.format_table(rows, ["", *headings])


def main() -> int:
    """Measure, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(description="Requests per second, beside known programs.")
    parser.add_argument("--quick", action="store_true", help="one round, a second for each load")
    seconds, rounds = (1, 1) if parser.parse_args().quick else (3, 3)
    about = measuring.describe_machine()
    with ExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        measuring.execute(postgres, "CREATE DATABASE fresh")  # of one of the SUBJECTS
        services = [
            stack.enter_context(
                serving(
                    *subject.arguments,
                    **NO_REFUSALS,
                    **subject.environment,
                    DATABASE_URL=postgres.url_of(subject.database),
                )
            )
            for subject in SUBJECTS
        ]
        fill(postgres)
        bench = Bench(postgres, seconds)
        for number in range(rounds):
            print(f"bench: round {number + 1} of {rounds}", file=sys.stderr)
            for load in LOADS:
                bench.measure_pgbench(load)
                for subject, service in zip(SUBJECTS, services, strict=True):
                    if load.kind in subject.kinds:
                        bench.measure(subject, service, load)
        scripts = {kind: LUA[kind] for kind in ("one key", "random keys")}
        profile = profiling.profile(postgres, scripts, seconds=5 * seconds)
    print(f"Requests per second:\n\n{format_medians(bench.per_second)}\n")
    processor_time = format_medians(bench.processor_time)
    print(f"Microseconds of processor time for a request:\n\n{processor_time}\n")
    print(f"Where a worker's microseconds go, with {profiling.CLIENTS} clients:\n\n{profile}\n")
    print(f"Measured by `make bench`: {about}.")
    return min(1, bench.miscounted)


if __name__ == "__main__":
    sys.exit(main())
