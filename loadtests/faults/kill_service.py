"""kill -9 of one of two services on the same database, with all its workers."""

from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.faults.experiment import Experiment, Figure, Place, Setup
from loadtests.harness.own_postgres import own_postgres


@contextmanager
def two_services(setup: Setup) -> Iterator[Place]:
    """Have two services on one PostgreSQL, of which each client uses one."""
    with (
        own_postgres(options=setup.postgres_options) as postgres,
        setup.serve(postgres.url) as one,
        setup.serve(postgres.url) as other,
    ):
        yield Place(postgres, [one, other], [one.url, other.url])


def kill_service(experiment: Experiment) -> list[Figure]:
    """Kill the second service; its clients go to the first one when they are refused."""
    for process in [experiment.master, *experiment.master.children()]:
        process.kill()
    return []
