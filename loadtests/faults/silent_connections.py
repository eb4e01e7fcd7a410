"""Clients that connect and send nothing."""

from collections.abc import Iterator

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.slow_clients import hold


def silent_connections(experiment: Experiment) -> Iterator[Figure]:
    """Open 200 connections, and send nothing."""
    return hold(experiment, 200, b"")
