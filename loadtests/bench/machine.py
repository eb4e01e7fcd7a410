"""The machine, versions and settings that the figures depend on, and processor times."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from loadtests.bench.services import SESSIONS, Database
from loadtests.harness.comparison import machine


def describe(database: Database, *programs: str) -> dict[str, str]:
    """Return the machine, the versions, and PostgreSQL's settings of durability."""

    def shown(setting: str) -> str:
        [(value,)] = database.execute("SELECT current_setting(%s)", [setting])
        return str(value)

    server = shown("server_version").split()[0]
    durable = [f"{name} {shown(name)}" for name in ("fsync", "synchronous_commit")]
    packages = [f"{name} {version(name)}" for name in ("Django", "psycopg2-binary", "gunicorn")]
    busy = f"{os.getloadavg()[0]:.1f}"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{machine()}, load average before {busy}",
        "versions": ", ".join([f"Python {sys.version.split()[0]}", *packages, *programs]),
        "database": ", ".join([f"PostgreSQL {server}", *durable]),
    }


def commit(checkout: Path) -> str:
    """Return the commit of a checkout and its date."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=commit %h of %cs"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return ended.stdout.strip() or "not in Git"


# --- Processor time, user and system, that processes have used so far, in seconds ----------------


def used(pids: Iterable[int], *, name: str = "") -> "Counter[int]":
    """Return the time of each running process whose name begins with `name`."""
    found: Counter[int] = Counter()
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.name().startswith(name):
                times = process.cpu_times()
                found[pid] = times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return found


def used_by_workers(master: int) -> "Counter[int]":
    """Return the time of the workers of the gunicorn with the process `master`."""
    return used(child.pid for child in psutil.Process(master).children())


def used_by_sessions(database: Database) -> "Counter[int]":
    """Return the time of PostgreSQL's sessions in this database."""
    return used((pid for (pid,) in database.execute(SESSIONS)), name="postgres")
