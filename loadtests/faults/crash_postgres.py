"""A crash of PostgreSQL, which recovers from its write-ahead log when it starts again."""

from loadtests.faults.experiment import Experiment, Figure
from loadtests.harness.own_postgres import Shutdown


def crash_postgres(experiment: Experiment) -> list[Figure]:
    """Stop PostgreSQL as `pg_ctl stop -m immediate` does, and start it again."""
    experiment.postgres.stop(Shutdown.IMMEDIATE)
    experiment.postgres.start()
    return []
