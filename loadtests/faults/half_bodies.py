"""Clients that send half a body."""

from collections.abc import Iterator

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.slow_clients import hold

HALF = (
    b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"target_url": "https://example.com/'
)


def half_bodies(experiment: Experiment) -> Iterator[Figure]:
    """Send half a body on 32 connections, more than there are threads."""
    return hold(experiment, 32, HALF)
