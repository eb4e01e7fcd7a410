"""Faults of PostgreSQL, and of the networks before and behind the service."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import psycopg2

from loadtests.faults.experiment import Experiment, manage
from loadtests.faults.outcome import KEEPALIVE, REQUEST_TIMEOUT, TIMEOUT, Figure
from loadtests.faults.traffic import HttpClient
from loadtests.harness.own_postgres import Shutdown, own_postgres

GONE = REQUEST_TIMEOUT + 8  # seconds that PostgreSQL does not answer, longer than a request waits
UNPLUGGED = 12  # seconds
CUTS, CUT_INTERVAL = 100, 0.05  # seconds
BEFORE, LOCKED = 2, 6  # seconds
READ_ONLY = 3  # seconds
NOTICED = 2.0  # seconds, in which /readyz looks at the database again
FULL = 3  # seconds
BLOCK = bytes(1024 * 1024)


def restart(experiment: Experiment, how: Shutdown) -> None:
    """Stop PostgreSQL, and start it again."""
    experiment.postgres.stop(how)
    experiment.postgres.start()


def freeze(experiment: Experiment) -> None:
    """Stop all processes of PostgreSQL by SIGSTOP, and have them go on by SIGCONT."""
    processes = experiment.postgres.processes()
    for process in processes:
        process.suspend()
    try:
        experiment.go_on(GONE)
    finally:
        for process in processes:
            process.resume()


def read_only(experiment: Experiment) -> Iterator[Figure]:
    """Have all transactions read-only, in open sessions too; ask /readyz meanwhile."""
    client = HttpClient(experiment.place.urls)

    def until(status: str, value: str) -> Figure:
        cursor.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        cursor.execute("SELECT pg_reload_conf()")
        problem = f"/readyz does not say {status}"
        took = experiment.wait(lambda: client.ask("GET", "/readyz").kind == status, problem)
        return Figure(f"/readyz {status} after", took, NOTICED, " s")

    with closing(experiment.postgres.connect()) as connection, closing(client):
        connection.autocommit = True
        with connection.cursor() as cursor:
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
    with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM shorturl_shorturl WHERE key = %s FOR UPDATE", [traffic.hot])
        meanwhile = others(LOCKED)
    yield Figure("other keys", 100 * meanwhile / usual, 80, " %", least=True)


def fill_disk(experiment: Experiment) -> None:
    """Fill the disk, have PostgreSQL want more of it, make space, and start it again."""
    ballast = experiment.place.tool / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(BLOCK):
            pass
    with (
        suppress(psycopg2.Error),
        closing(experiment.postgres.connect()) as connection,
        connection.cursor() as cursor,
    ):
        for _ in range(100):  # until there is no segment left to write to
            cursor.execute("SELECT pg_switch_wal(), txid_current()")
            connection.commit()
    experiment.go_on(FULL)
    ballast.unlink()
    restart(experiment, Shutdown.IMMEDIATE)


def migrate_twice(experiment: Experiment) -> Iterator[Figure]:
    """Migrate an empty database, on another server, by two processes at the same time."""
    with own_postgres() as empty, ExitStack() as stack:
        both = [stack.enter_context(manage("migrate", empty.url)) for _ in range(2)]
        yield Figure("failed migrations", sum(one.wait(TIMEOUT) != 0 for one in both), 0)


def forward_nothing(experiment: Experiment) -> None:
    """Have the proxy before PostgreSQL forward nothing for a while."""
    experiment.place.tool.forwarding.clear()
    experiment.go_on(GONE)
    experiment.place.tool.forwarding.set()


def cut_connections(experiment: Experiment) -> None:
    """Cut a client's connection 20 times a second, with what is on its way."""
    for _ in range(CUTS):
        experiment.place.tool.cut_one()
        experiment.go_on(CUT_INTERVAL)


def kill_pgbouncer(experiment: Experiment) -> None:
    """Kill PgBouncer, and start another one a second later."""
    experiment.place.tool.kill()
    experiment.go_on(1)
    experiment.place.tool.start()


def unplug(experiment: Experiment) -> Iterator[Figure]:
    """Have the network lose everything, and wait until sessions without a client have ended."""
    cable = experiment.place.tool
    cable.turn("down")
    experiment.go_on(UNPLUGGED)
    left = dead(experiment)
    cable.turn("up")
    problem, longest = "dead sessions are not ended", 10 * KEEPALIVE
    took = experiment.wait(lambda: not dead(experiment), problem, longest)
    yield Figure("dead sessions", left, 1, least=True)
    yield Figure("ended after", UNPLUGGED + took, 2 * KEEPALIVE, " s")


def dead(experiment: Experiment) -> int:
    """Return how many sessions PostgreSQL has whose connection no worker has."""
    with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT client_port FROM pg_stat_activity WHERE client_port > 0")
        ports = {port for (port,) in cursor.fetchall()}
    for worker in experiment.master.children():
        ports -= {each.laddr.port for each in worker.net_connections("tcp")}
    return len(ports)
