"""A disk without space, which PostgreSQL needs for its write-ahead log."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg2

from loadtests.faults.experiment import Experiment, Figure, Place, Setup, Skipped
from loadtests.harness.own_postgres import Shutdown, own_postgres

SIZE = "200m"  # of which a new PostgreSQL takes some 60
FULL = 3  # seconds
BLOCK = bytes(1024 * 1024)


@contextmanager
def small_disk(setup: Setup) -> Iterator[Place]:
    """Have PostgreSQL's data on a small file system of its own, in memory."""
    if os.geteuid() or not shutil.which("mount"):
        raise Skipped("only root can mount a small file system")
    with TemporaryDirectory(prefix="disk-") as name:
        disk = Path(name)
        options = f"size={SIZE},mode=755"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", name]
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if mounted.returncode:
            raise Skipped(mounted.stderr.strip())
        try:
            with (
                own_postgres(options=setup.postgres_options, within=disk) as postgres,
                setup.serve(postgres.url) as service,
            ):
                yield Place(postgres, [service], [service.url], disk)
        finally:
            subprocess.run(["umount", name], check=True)  # noqa: S603, S607


def full_disk(experiment: Experiment) -> list[Figure]:
    """Fill the disk, have PostgreSQL want more of it, and make space and start it again."""
    postgres, ballast = experiment.postgres, experiment.place.tool / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(BLOCK):
            pass
    with (
        suppress(psycopg2.Error),
        closing(postgres.connect()) as connection,
        connection.cursor() as cursor,
    ):
        for _ in range(100):  # until there is no segment left to write to
            cursor.execute("SELECT pg_switch_wal(), txid_current()")
            connection.commit()
    experiment.go_on(FULL)
    ballast.unlink()
    postgres.stop(Shutdown.IMMEDIATE)
    postgres.start()
    return []
