"""The eight faults. Each function injects one under the traffic, and returns figures."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from math import inf
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loadtests.faults.traffic import Traffic
from loadtests.servers import ROOT, run_wrk, wait_until

USUAL_WAIT = 1.0  # second, of a request
BODY_TIMEOUT = 5  # seconds, as in docs/deploying.md
SEND_TIMEOUT = 20  # seconds
TIMEOUT = 60  # seconds
POLL_INTERVAL = 0.1  # seconds
KILL_INTERVAL = 1  # second
OVERLOAD_SECONDS = 5
CONNECTIONS = 200
CLIENTS = 64
KILLS = 4
HALF_BODY = b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
BIG_FILE = b"GET /static/ninja/swagger-ui.css HTTP/1.1\r\nHost: localhost\r\n\r\n"  # 177 KB
LOCK_HOT_ROW = "SELECT 1 FROM shorturl_shorturl WHERE key = %s FOR UPDATE"
# A roll-up waits for the rows that it adds to, after it has deleted those that it moves.
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


def lock_row(traffic: Traffic) -> list[Figure]:
    """Keep the hot row locked in a transaction; compare the throughput of everything else."""
    usual_rate = measure_other_keys(traffic, seconds=2)
    with closing(traffic.postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(LOCK_HOT_ROW, [traffic.keys["hot"]])
        locked_rate = measure_other_keys(traffic, seconds=6)
    loss = 100 * (1 - locked_rate / usual_rate)
    return [Figure("other keys slower by", loss, limit=20, unit="%")]


def measure_other_keys(traffic: Traffic, seconds: float) -> float:
    """Return how many requests a second are acknowledged besides those for the hot key."""
    acknowledged = traffic.records.acknowledged
    before = acknowledged.copy()
    time.sleep(seconds)
    meanwhile = acknowledged - before
    return (meanwhile.total() - meanwhile[traffic.keys["hot"]]) / seconds


def send_half_bodies(traffic: Traffic) -> list[Figure]:
    """Send half bodies, and wait until the service has closed all connections."""
    return keep_connections(traffic, HALF_BODY, lambda client: client.recv(4096), BODY_TIMEOUT)


def read_slowly(traffic: Traffic) -> list[Figure]:
    """Request a file ten times a second on each connection, and read nothing."""
    return keep_connections(traffic, BIG_FILE, lambda client: client.send(BIG_FILE), SEND_TIMEOUT)


def keep_connections(
    traffic: Traffic, data: bytes, use: Callable[[socket.socket], object], timeout: float
) -> list[Figure]:
    """Send `data` on many connections, and wait until the service has closed all of them.

    `use` receives or sends on a connection that does not block.
    """
    url = urlsplit(traffic.service.url)
    with ExitStack() as stack:
        clients = []
        for _ in range(CONNECTIONS):
            clients.append(stack.enter_context(socket.create_connection((url.hostname, url.port))))
            clients[-1].sendall(data)
            clients[-1].setblocking(False)
        began = time.monotonic()
        while clients and time.monotonic() < began + TIMEOUT:
            time.sleep(POLL_INTERVAL)
            clients = [client for client in clients if is_open(client, use)]
    limit = timeout + 2 * USUAL_WAIT
    return [Figure("all closed after", time.monotonic() - began, limit, unit="s")]


def is_open(client: socket.socket, use: Callable[[socket.socket], object]) -> bool:
    """Return whether the service has left a connection open."""
    try:
        return bool(use(client))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def overload(traffic: Traffic) -> list[Figure]:
    """Follow the hot link by as many clients as keep the service busy, and by ten times as many."""
    usual_rate = follow_without_pause(traffic, CLIENTS)
    overloaded_rate = follow_without_pause(traffic, 10 * CLIENTS)
    loss = 100 * (1 - overloaded_rate / usual_rate)
    return [Figure("goodput less by", loss, limit=30, unit="%")]


def follow_without_pause(traffic: Traffic, clients: int) -> float:
    """Follow the hot link without pause, and record it; return the redirects per second."""
    key = traffic.keys["hot"]
    url = f"{traffic.service.url}/{key}"
    acknowledged, sent = run_wrk(url, clients, OVERLOAD_SECONDS, "-t2")
    traffic.records.acknowledged[key] += acknowledged
    traffic.records.sent[key] += sent
    return acknowledged / OVERLOAD_SECONDS


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
            if number % 2:
                cursor.execute(f"SELECT pg_terminate_backend(pid) {MIDWAY}")
    return []


FAULTS = {
    "kill_worker": kill_worker,
    "crash_postgres": crash_postgres,
    "frozen_postgres": freeze_postgres,
    "locked_row": lock_row,
    "half_bodies": send_half_bodies,
    "slow_readers": read_slowly,
    "overload": overload,
    "kill_roll_up": kill_roll_up,
}
# The longest waits of a request that are allowed, in seconds, where that is not USUAL_WAIT.
MAX_WAITS = {
    "frozen_postgres": 13,  # a statement, and the service's own limit beyond that
    "locked_row": 1.5,  # half a second until the statement is sent, and one for the lock
    "overload": inf,
}
