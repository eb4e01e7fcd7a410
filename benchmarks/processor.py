"""The processor time, user and system, that processes have used so far, in seconds."""

from collections import Counter
from collections.abc import Iterable

import psutil
from django.db import connection


def used(pids: Iterable[int], *, name: str = "") -> "Counter[int]":
    """Return the time of each process that still is, and whose name begins with `name`."""
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


def of_workers(master: int) -> "Counter[int]":
    """Return the time of a gunicorn's workers, by the process of its master."""
    return used(child.pid for child in psutil.Process(master).children())


def of_sessions() -> "Counter[int]":
    """Return the time of PostgreSQL's sessions in this database, if they are on this machine."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return used((pid for (pid,) in cursor.fetchall()), name="postgres")
