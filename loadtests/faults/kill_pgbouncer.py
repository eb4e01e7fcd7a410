"""kill -9 of a PgBouncer in transaction mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.faults.experiment import Experiment, Figure, Place, Setup, Skipped
from loadtests.harness.own_pgbouncer import NotInstalled, own_pgbouncer
from loadtests.harness.own_postgres import own_postgres

AWAY = 1  # seconds


@contextmanager
def pgbouncer_before_postgres(setup: Setup) -> Iterator[Place]:
    """Have a PgBouncer between the service and PostgreSQL."""
    try:
        with (
            own_postgres() as postgres,
            own_pgbouncer(postgres.address) as pgbouncer,
            setup.serve(pgbouncer.url, DATABASE_POOLER="transaction") as service,
        ):
            yield Place(postgres, [service], [service.url], pgbouncer)
    except NotInstalled as reason:
        raise Skipped(str(reason)) from reason


def kill_pgbouncer(experiment: Experiment) -> list[Figure]:
    """Kill PgBouncer, and start another one a second later."""
    experiment.place.tool.kill()
    experiment.go_on(AWAY)
    experiment.place.tool.start()
    return []
