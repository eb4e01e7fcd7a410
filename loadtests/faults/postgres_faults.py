"""Faults of PostgreSQL and of the networks around the service, and killed roll-ups."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any

import psycopg2

from loadtests.faults.experiment import TIMEOUT, Experiment, Figure, found, manage
from loadtests.faults.traffic import HttpClient
from loadtests.harness.own_postgres import Shutdown, own_postgres

REQUEST_TIMEOUT, KEEPALIVE = 12.0, 30.0  # seconds, as in docs/deploying.md
GONE = REQUEST_TIMEOUT + 8  # seconds without PostgreSQL, longer than a request waits
UNPLUGGED = 12  # seconds
CUTS, CUT_INTERVAL = 100, 0.05  # seconds
BEFORE, LOCKED = 2, 6  # seconds
READ_ONLY = 3  # seconds
NOTICED = 2.0  # seconds within which /readyz looks at the database again
FULL = 3  # seconds
BLOCK = bytes(1024 * 1024)


def restart(experiment: Experiment, how: Shutdown) -> None:
    experiment.postgres.stop(how)
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
    restart(experiment, Shutdown.IMMEDIATE)


def migrate_twice(experiment: Experiment) -> Iterator[Figure]:
    with own_postgres() as empty, ExitStack() as stack:
        both = [stack.enter_context(manage("migrate", empty.url)) for _ in range(2)]
        yield Figure("failed migrations", sum(one.wait(TIMEOUT) != 0 for one in both), 0)


def forward_nothing(experiment: Experiment) -> None:
    experiment.place.tool.forwarding.clear()
    experiment.go_on(GONE)
    experiment.place.tool.forwarding.set()


def cut_connections(experiment: Experiment) -> None:
    for _ in range(CUTS):
        experiment.place.tool.cut_one()
        experiment.go_on(CUT_INTERVAL)


def kill_pgbouncer(experiment: Experiment) -> None:
    experiment.place.tool.kill()
    experiment.go_on(1)
    experiment.place.tool.start()


def unplug(experiment: Experiment) -> Iterator[Figure]:
    """Have the network lose all packets, and wait until sessions without a client have ended."""
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
    """Return the number of PostgreSQL's sessions whose client port no worker has open."""
    with experiment.postgres.session() as cursor:
        cursor.execute("SELECT client_port FROM pg_stat_activity WHERE client_port > 0")
        ports = {port for (port,) in cursor.fetchall()}
    for worker in experiment.master.children():
        ports -= {each.laddr.port for each in worker.net_connections("tcp")}
    return len(ports)


# --- `manage.py roll_up` while visits are recorded, and kill -9 of every second one --------------
# After the kill, PostgreSQL finishes the current statement of the roll-up, and may commit it. So
# the sessions of half of them are ended as well, as when a machine fails.

ROLL_UPS = 8
# Rows that a roll-up locks after it has deleted those that it moves. A redirect needs no lock on
# them. The roll-up is killed while it waits for them. Recent visits are added to the row of the
# hour. At the start of an hour that row is missing, and no fault is injected.
HOURS = "SELECT 1 FROM shorturl_visitcount WHERE unit = 'h' FOR UPDATE"
# Rows that an earlier roll-up has compacted. A later one adds to them after it has deleted kinds.
COMPACTED = "SELECT 1 FROM shorturl_visitcount WHERE unit = 'd' AND referrer = '*' FOR UPDATE"
# A roll-up that waits for a lock. by_key adds in a second statement.
MIDWAY = r"""
    SELECT pid FROM pg_stat_activity
    WHERE wait_event_type = 'Lock'
        AND query ~ '(free AS MATERIALIZED|^\s*INSERT INTO "?shorturl_visitcount)'
"""
END = f"SELECT pg_terminate_backend(pid) FROM ({MIDWAY}) AS midway"  # noqa: S608
# Makes visits older, so that hours are rolled up to days, and days to months.
AGE = """
    UPDATE shorturl_visitcount SET starts_at = starts_at
        - (CASE unit WHEN 'h' THEN 100 ELSE 1000 END + %s) * interval '1 day'
    WHERE unit IN ('h', 'd')
"""
# CROWD makes recent visits old, and of up to a hundred kinds: more than a day of a link may have.
ENOUGH = """
    SELECT 1 FROM shorturl_recentvisits GROUP BY key HAVING count(DISTINCT id % 100) > 60
"""
CROWD = """
    UPDATE shorturl_recentvisits SET starts_at = starts_at - %s * interval '1 day', kinds = (
        SELECT jsonb_agg(jsonb_set(kind, '{0}', to_jsonb(id %% 100 || '.example')))
        FROM jsonb_array_elements(kinds) AS kind
    )
"""
OLD = 100  # days: hours are no longer kept
RECENT = 3  # days: hours are kept, but of the dimensions only the device

Prepare = Callable[[Experiment, Any, int], object]


def roll_ups(experiment: Experiment, lock: str, prepare: Prepare) -> Iterator[Figure]:
    """Run roll-ups, and kill those of an odd number while they wait for the rows of `lock`.

    `prepare` is called before each, with a cursor and the number.
    """
    failed = killed = ended = 0
    for number in range(ROLL_UPS):
        with experiment.postgres.session() as cursor:
            prepare(experiment, cursor, number)
            cursor.connection.commit()
            if number % 2:
                cursor.execute(lock)
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


def age(experiment: Experiment, cursor: Any, number: int) -> None:
    """Make visits older, except before a killed roll-up, which needs the rows of HOURS."""
    if number % 2 == 0:
        cursor.execute(AGE, [number])


def crowd_old(experiment: Experiment, cursor: Any, number: int) -> None:
    """Make recent visits old, once there are ENOUGH; each pair of roll-ups has another day."""
    experiment.wait(partial(found, cursor, ENOUGH), "there are few visits")
    cursor.execute(CROWD, [OLD + number // 2])


def crowd_recent(experiment: Experiment, cursor: Any, number: int) -> None:
    """Make recent visits some days old, once there are ENOUGH."""
    experiment.wait(partial(found, cursor, ENOUGH), "there are few visits")
    cursor.execute(CROWD, [RECENT])
