"""A network between the service and PostgreSQL that loses everything."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.faults.experiment import REQUEST_TIMEOUT, Experiment, Figure, Place, Setup
from loadtests.faults.tcp_proxy import tcp_proxy
from loadtests.harness.own_postgres import own_postgres

LOST = REQUEST_TIMEOUT + 8  # seconds


@contextmanager
def proxy_before_postgres(setup: Setup) -> Iterator[Place]:
    """Have a proxy between the service and PostgreSQL."""
    with own_postgres() as postgres:

        def connect() -> socket.socket:
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(postgres.socket))
            return server

        with (
            tcp_proxy(connect) as proxy,
            setup.serve(postgres.url_at("127.0.0.1", proxy.port)) as service,
        ):
            yield Place(postgres, [service], [service.url], proxy)


def black_hole(experiment: Experiment) -> list[Figure]:
    """Have the proxy forward nothing for a while."""
    experiment.place.tool.hold()
    experiment.go_on(LOST)
    experiment.place.tool.forward()
    return []
