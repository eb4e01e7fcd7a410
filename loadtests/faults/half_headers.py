"""Clients that send half a header."""

from collections.abc import Iterator

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.slow_clients import hold


def half_headers(experiment: Experiment) -> Iterator[Figure]:
    """Send half a header on 32 connections, more than there are threads."""
    return hold(experiment, 32, b"GET / HTTP/1.1\r\nHost: loc")
