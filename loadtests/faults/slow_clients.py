"""Clients that connect, send nothing, a part of a request or all of it, and then wait."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from loadtests.faults.experiment import MARGIN, RECEIVE_TIMEOUT, Experiment, Figure


def hold(experiment: Experiment, clients: int, data: bytes) -> Iterator[Figure]:
    """Send `data` on so many connections, and wait until the service has closed them all."""
    address = urlsplit(experiment.place.urls[0])
    with ExitStack() as opened:
        began = time.monotonic()
        waiting = []
        for _ in range(clients):
            client = socket.create_connection((address.hostname, address.port))
            waiting.append(opened.enter_context(client))
            client.sendall(data)
            client.setblocking(False)
        while waiting:
            waiting = [client for client in waiting if is_open(client)]
            closed = time.monotonic() - began
            if closed > 10 * RECEIVE_TIMEOUT:
                break
            experiment.go_on(0.1)
    yield Figure("all closed after", closed, RECEIVE_TIMEOUT + 2 * MARGIN, " s")


def is_open(client: socket.socket) -> bool:
    """Return whether the service has left the connection open."""
    with suppress(BlockingIOError):
        try:
            while client.recv(4096):
                pass
        except ConnectionError:
            pass
        return False
    return True
