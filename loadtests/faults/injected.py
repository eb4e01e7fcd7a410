"""The five faults. Each function injects one under the traffic, and returns figures."""

import os
import random
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from math import inf
from typing import Any, NamedTuple

from loadtests.faults.traffic import Traffic
from loadtests.servers import ROOT, run_wrk, wait_until

USUAL_WAIT = 1.0  # the longest that a request may take, in seconds
TIMEOUT = 60  # seconds
KILL_INTERVAL = 1  # second
OVERLOAD_SECONDS = 5
CLIENTS = 64
KILLS = 4
# A roll-up deletes the visits that it moves, and then adds them to these rows. If they are locked,
# it waits midway.
LOCK_HOURS = "SELECT 1 FROM shorturl_hourlyvisits FOR UPDATE"
MIDWAY = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'DELETE FROM'"
FIND_MIDWAY = f"SELECT pg_stat_clear_snapshot(); SELECT pid {MIDWAY}"  # as it is now


class Figure(NamedTuple):
    """A measured number, and its limit."""

    name: str
    measured: float
    limit: float
    unit: str

    @property
    def is_missed(self) -> bool:
        return self.measured > self.limit

    def __str__(self) -> str:
        return f"{self.name} {self.measured:.2f} ≤ {self.limit:g} {self.unit}"


def kill_worker(traffic: Traffic) -> list[Figure]:
    """Kill a random worker every second. gunicorn replaces each of them."""
    workers_before = len(traffic.service.workers)
    for _ in range(KILLS):
        random.choice(traffic.service.workers).kill()  # noqa: S311
        time.sleep(KILL_INTERVAL)
    missing = workers_before - len(traffic.service.workers)
    return [Figure("workers missing", missing, limit=0, unit="")]


def crash_postgres(traffic: Traffic) -> list[Figure]:
    """Stop PostgreSQL as in a crash, and start it again."""
    traffic.postgres.crash()
    traffic.postgres.start()
    return []


def freeze_postgres(traffic: Traffic) -> list[Figure]:
    """Stop all processes of PostgreSQL for a while by SIGSTOP."""
    processes = traffic.postgres.processes()
    for process in processes:
        process.suspend()
    try:
        time.sleep(20)
    finally:
        for process in processes:
            process.resume()
    return []


def overload(traffic: Traffic) -> list[Figure]:
    """Overload the service with ten times as many clients as keep it busy.

    The goodput, which is the redirects per second, should fall little.
    """
    usual_rate = follow_without_pause(traffic, CLIENTS)
    overloaded_rate = follow_without_pause(traffic, 10 * CLIENTS)
    loss = 100 * (1 - overloaded_rate / usual_rate)
    return [Figure("goodput less by", loss, limit=30, unit="%")]


def follow_without_pause(traffic: Traffic, clients: int) -> float:
    """Let clients follow the hot link without pause, and record it; return redirects per second."""
    key = traffic.keys["hot"]
    url = f"{traffic.service.url}/{key}"
    result = run_wrk(url, clients, OVERLOAD_SECONDS, "-t2")
    traffic.records.acknowledged[key] += result.acknowledged
    traffic.records.sent[key] += result.sent
    return result.acknowledged / OVERLOAD_SECONDS


def is_midway(cursor: Any) -> bool:
    """Return whether a roll-up has deleted its visits and waits for a lock."""
    cursor.execute(FIND_MIDWAY)
    return bool(cursor.fetchall())


def kill_roll_up(traffic: Traffic) -> list[Figure]:
    """Kill roll-ups midway, when they wait for a lock; half of them with their sessions."""
    variables = {**os.environ, "SHORTURL_LOCAL": "on", "DATABASE_URL": traffic.postgres.url}
    command = [sys.executable, "manage.py", "roll_up"]
    for number in range(KILLS):
        # A whole roll-up, so that there are rows for LOCK_HOURS.
        subprocess.run(command, cwd=ROOT, env=variables, check=True, capture_output=True)  # noqa: S603
        traffic.wait_until_at_work()
        with closing(traffic.postgres.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(LOCK_HOURS)
            with subprocess.Popen(command, cwd=ROOT, env=variables) as process:  # noqa: S603
                try:
                    problem = "the roll-up does not wait for its rows"
                    wait_until(partial(is_midway, cursor), problem, TIMEOUT)
                finally:
                    process.kill()
            # A session that stays ends its statement, finds no client and rolls back.
            if number % 2:
                cursor.execute(f"SELECT pg_terminate_backend(pid) {MIDWAY}")
    return []


FAULTS = {
    "kill_worker": kill_worker,
    "crash_postgres": crash_postgres,
    "frozen_postgres": freeze_postgres,
    "overload": overload,
    "kill_roll_up": kill_roll_up,
}
# The longest waits of a request that are allowed, in seconds, where that is not USUAL_WAIT.
MAX_WAITS = {
    "frozen_postgres": 13,  # a statement, and the service's own limit beyond that
    "overload": inf,
}
