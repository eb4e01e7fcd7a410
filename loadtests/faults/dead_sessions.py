"""A network that loses everything for a while, and what it leaves behind in PostgreSQL."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from loadtests.faults.experiment import (
    KEEPALIVE,
    Experiment,
    Figure,
    Place,
    Setup,
)
from loadtests.faults.network import THERE, cable
from loadtests.harness.own_postgres import own_postgres

LOST = 12  # seconds


@contextmanager
def cable_to_postgres(setup: Setup) -> Iterator[Place]:
    """Have PostgreSQL in a network of its own, with a cable to the service's."""
    with ExitStack() as stack:
        wire = stack.enter_context(cable())
        with wire.far_end():
            postgres = stack.enter_context(own_postgres(listen=THERE))
        url = postgres.url_at(THERE, postgres.address["port"])
        service = stack.enter_context(setup.serve(url))
        yield Place(postgres, [service], [service.url], wire)


def dead_sessions(experiment: Experiment) -> Iterator[Figure]:
    """Pull the cable for 12 s, and wait until the sessions without a client have ended."""
    experiment.place.tool.pull()
    experiment.go_on(LOST)
    left = dead(experiment)
    experiment.place.tool.plug_in()
    took = experiment.wait(
        lambda: not dead(experiment), "dead sessions are not ended", timeout=10 * KEEPALIVE
    )
    yield Figure("dead sessions", left, 1, least=True)
    yield Figure("ended after", LOST + took, 2 * KEEPALIVE, " s")


def dead(experiment: Experiment) -> int:
    """Return how many sessions PostgreSQL has whose connection no worker has."""
    with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT client_port FROM pg_stat_activity WHERE client_port > 0")
        ports = {port for (port,) in cursor.fetchall()}
    for worker in experiment.master.children():
        ports -= {each.laddr.port for each in worker.net_connections("tcp")}
    return len(ports)
