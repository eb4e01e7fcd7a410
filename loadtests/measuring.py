"""A measurement of the service: rate, processor time, and whether it has counted right."""

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple, Protocol

import psutil
from tabulate import tabulate

from loadtests.servers import DATABASE, RunningService, WrkResult, run_wrk

COUNTED = "SELECT sum(hits)::bigint + count(*) FROM shorturl_shorturl"
FILL = """
    INSERT INTO shorturl_shorturl (key, target_url)
    SELECT 'k' || number, 'https://example.com/' || number
    FROM generate_series({first}, {last}) AS number
"""
# wrk runs these. Their links have the keys k1, k2, …
ONE_KEY = 'wrk.path = "/k1"'
RANDOM_KEYS = """
    math.randomseed(os.time())
    request = function() return wrk.format("GET", "/k" .. math.random({links})) end
"""


class Postgres(Protocol):
    """The PostgreSQL of a measurement."""

    def connect(self, database: str, /) -> Any: ...

    def processes(self) -> list[psutil.Process]: ...


class Measurement(NamedTuple):
    """What a load has shown."""

    result: WrkResult
    counted: int  # redirects and creates, by the database
    seconds: int
    processor_seconds: Mapping[str, float]  # by program

    @property
    def per_second(self) -> float:
        return self.result.acknowledged / self.seconds

    @property
    def microseconds(self) -> dict[str, float]:
        """Return the processor time of an acknowledged request, by program."""
        acknowledged = self.result.acknowledged or 1
        return {name: used * 1e6 / acknowledged for name, used in self.processor_seconds.items()}

    @property
    def is_exact(self) -> bool:
        """Return whether each acknowledged request was counted, and none twice."""
        return self.result.acknowledged <= self.counted <= self.result.sent


def measure(
    postgres: Postgres,
    service: RunningService,
    script: str,
    clients: int,
    seconds: int,
    *,
    database: str = DATABASE,
) -> Measurement:
    """Let clients send the requests of a wrk script without pause, and return what was measured."""
    counted_before = count(postgres, database)
    used_before = read_processor_seconds(postgres, service)
    with NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        result = run_wrk(service.url, clients, seconds, "-t1", "-s", file.name)
    used = read_processor_seconds(postgres, service)
    return Measurement(
        result,
        count(postgres, database) - counted_before,
        seconds,
        {name: used[name] - used_before[name] for name in used},
    )


def count(postgres: Postgres, database: str) -> int:
    """Return the hits plus the links, once requests whose clients have left add no more to them."""
    counted, before = execute(postgres, COUNTED, database), -1
    while counted != before:
        counted, before = execute(postgres, COUNTED, database), counted
    return counted


def execute(postgres: Postgres, statement: str, database: str = DATABASE) -> int:
    """Execute a statement in autocommit; return the number that it selects, or 0."""
    with closing(postgres.connect(database)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(statement)
        return int(cursor.fetchone()[0]) if cursor.description else 0


def read_processor_seconds(postgres: Postgres, service: RunningService) -> dict[str, float]:
    """Return the processor time of the service and of PostgreSQL so far."""
    processes = {"service": service.workers, "PostgreSQL": postgres.processes()}
    seconds = dict.fromkeys(processes, 0.0)
    for name in processes:
        for process in processes[name]:
            with suppress(psutil.NoSuchProcess):  # it has ended: its parent has its time
                times = process.cpu_times()
                seconds[name] += times.user + times.system
                seconds[name] += times.children_user + times.children_system
    return seconds


def describe_machine() -> str:
    """Return the date, the machine and how busy it is, for below a table."""
    machine = f"{os.cpu_count()} processors, {platform.system()} {platform.release()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {machine}, load average before {os.getloadavg()[0]:.1f}"


def format_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    """Return a table in Markdown, whose first column is text."""
    alignment = ["left", *["right"] * (len(headings) - 1)]
    return tabulate(rows, headings, "pipe", colalign=alignment, disable_numparse=True)
