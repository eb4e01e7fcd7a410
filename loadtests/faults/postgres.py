"""Faults of PostgreSQL, and roll-ups of visits that are killed midway."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg2

from loadtests.faults.experiment import (
    REQUEST_TIMEOUT,
    TIMEOUT,
    Experiment,
    Figure,
    Place,
    found,
    run,
    served,
)
from loadtests.faults.traffic import HttpClient
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import NotInstalled
from loadtests.harness.serving import manage

GONE = REQUEST_TIMEOUT + 8  # seconds without PostgreSQL, longer than a request waits
BEFORE, LOCKED = 2, 6  # seconds
READ_ONLY = 3  # seconds
NOTICED = 2.0  # seconds within which /readyz looks at the database again
DISK, FULL = "200m", 3  # a new PostgreSQL takes some 60; seconds
BLOCK = bytes(1024 * 1024)


def crash(experiment: Experiment) -> None:
    experiment.postgres.crash()
    experiment.postgres.start()


def freeze(experiment: Experiment) -> None:
    processes = experiment.postgres.processes()
    for process in processes:
        process.suspend()
    try:
        experiment.go_on(GONE)
    finally:
        for process in processes:
            process.resume()


def read_only(experiment: Experiment) -> Iterator[Figure]:
    """Make all transactions read-only, also in open sessions; request /readyz meanwhile."""
    client = HttpClient(experiment.place.urls)

    def until(status: str, value: str) -> Figure:
        cursor.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        cursor.execute("SELECT pg_reload_conf()")
        problem = f"/readyz does not say {status}"
        took = experiment.wait(lambda: client.ask("GET", "/readyz").kind == status, problem)
        return Figure(f"/readyz {status} after", took, NOTICED, " s")

    with experiment.postgres.session(autocommit=True) as cursor, closing(client):
        yield until("503", "on")
        experiment.go_on(READ_ONLY)
        yield until("200", "off")


def lock_row(experiment: Experiment) -> Iterator[Figure]:
    """Keep the hot row locked in a transaction; compare the other keys' throughput."""
    traffic = experiment.traffic

    def others(seconds: float) -> float:
        started = traffic.cold_redirects()
        experiment.go_on(seconds)
        return (traffic.cold_redirects() - started) / seconds

    usual = others(BEFORE)
    with experiment.postgres.session() as cursor:
        cursor.execute("SELECT 1 FROM shorturl_shorturl WHERE key = %s FOR UPDATE", [traffic.hot])
        meanwhile = others(LOCKED)
    yield Figure("other keys", 100 * meanwhile / usual, 80, " %", least=True)


@contextmanager
def small_disk(options: str) -> Iterator[Place]:
    """Yield a service whose PostgreSQL has its data on a small file system in memory."""
    if os.geteuid() or not shutil.which("mount"):
        raise NotInstalled("only root can mount a small file system")
    with TemporaryDirectory(prefix="disk-") as name:
        run(f"mount -t tmpfs -o size={DISK},mode=755 tmpfs {name}")
        try:
            with (
                own_postgres(options=options, within=Path(name)) as postgres,
                served(postgres.url) as service,
            ):
                yield Place(postgres, [service], [service.url], Path(name))
        finally:
            subprocess.run(["umount", name], check=True)  # noqa: S603, S607


def fill_disk(experiment: Experiment) -> None:
    """Fill the disk, have PostgreSQL run out of space, free it, and start PostgreSQL again."""
    ballast = experiment.place.tool / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(BLOCK):
            pass
    with suppress(psycopg2.Error), experiment.postgres.session() as cursor:
        for _ in range(100):  # until no segment is left
            cursor.execute("SELECT pg_switch_wal(), txid_current()")
            cursor.connection.commit()
    experiment.go_on(FULL)
    ballast.unlink()
    crash(experiment)


# --- `manage.py roll_up` while visits are recorded, and kill -9 of every second one --------------
# After the kill, PostgreSQL finishes the current statement of the roll-up, and may commit it. So
# the sessions of half of them are ended as well, as when a machine fails.

ROLL_UPS = 8
# The roll-up is killed while it waits for a row of a day that it adds to. Recording needs no lock
# on it. The first roll-up after midnight finds no row to wait for, and no fault is injected.
DAYS = "SELECT 1 FROM shorturl_dailyvisits FOR UPDATE"
# A roll-up that waits for a lock.
MIDWAY = """
    SELECT pid FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query ~ 'old_days'
"""
END = f"SELECT pg_terminate_backend(pid) FROM ({MIDWAY}) AS midway"  # noqa: S608
# Makes the visits of today old, so that they are rolled up to a month.
AGE = "UPDATE shorturl_dailyvisits SET day = make_date(2020, 1, 2 + %s) WHERE day > '2021-01-01'"


def roll_ups(experiment: Experiment) -> Iterator[Figure]:
    """Run roll-ups, and kill those of an odd number while they wait for the rows of DAYS."""
    failed = killed = ended = 0
    for number in range(ROLL_UPS):
        with experiment.postgres.session() as cursor:
            if number % 2:
                cursor.execute(DAYS)
            else:
                cursor.execute(AGE, [number])
                cursor.connection.commit()
            with manage("roll_up", experiment.postgres.url) as process:
                if number % 2:
                    experiment.wait(partial(found, cursor, MIDWAY), "the roll-up does not begin")
                    killed += 1
                else:
                    failed += process.wait(TIMEOUT) != 0
            if number % 4 == 1:
                cursor.execute(END)
                ended += len(cursor.fetchall())
    yield Figure("failed roll-ups", failed, 0)
    yield Figure("killed", killed, ROLL_UPS // 2, least=True)
    yield Figure("sessions ended midway", ended, ROLL_UPS // 4, least=True)
