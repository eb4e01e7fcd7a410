"""Clients that have their answer and leave the connection open."""

from collections.abc import Iterator

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.slow_clients import hold


def unclosed_connections(experiment: Experiment) -> Iterator[Figure]:
    """Ask on 200 connections for an answer that ends them, and do not close them."""
    return hold(experiment, 200, b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
