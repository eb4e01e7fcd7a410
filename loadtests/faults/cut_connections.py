"""A network between clients and the service that cuts connections off at random."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from loadtests.faults.experiment import Experiment, Figure, Place, Setup, plain
from loadtests.faults.tcp_proxy import tcp_proxy

CUTS, INTERVAL = 100, 0.05  # seconds


@contextmanager
def proxy_before_service(setup: Setup) -> Iterator[Place]:
    """Have a proxy between the clients and the service."""
    with plain(setup) as place:
        address = urlsplit(place.urls[0])
        with tcp_proxy(lambda: socket.create_connection((address.hostname, address.port))) as proxy:
            url = f"http://127.0.0.1:{proxy.port}"
            yield Place(place.postgres, place.services, [url], proxy)


def cut_connections(experiment: Experiment) -> list[Figure]:
    """Cut a connection 20 times a second, whatever is on its way."""
    for _ in range(CUTS):
        experiment.place.tool.cut_one()
        experiment.go_on(INTERVAL)
    return []
