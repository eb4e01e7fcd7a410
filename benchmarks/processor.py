"""The processor time, user and system, that processes have used."""

from collections.abc import Iterable

import psutil
from django.db import connection


def used(pids: Iterable[int], *, name: str = "") -> dict[int, float]:
    """Return the seconds that each process has used so far; those gone, or not `name`, left out."""
    found = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            if process.name().startswith(name):
                found[pid] = times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return found


def by_workers(master: int) -> dict[int, float]:
    """Return what the workers of a gunicorn have used, by the process of its master."""
    return used(child.pid for child in psutil.Process(master).children())


def by_sessions() -> dict[int, float]:
    """Return what PostgreSQL's sessions in this database have used, if they are on this machine."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return used((pid for (pid,) in cursor.fetchall()), name="postgres")


def between(before: dict[int, float], after: dict[int, float]) -> float:
    """Return the seconds used from one look to the next."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
