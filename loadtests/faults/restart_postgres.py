"""A restart of PostgreSQL, which closes all connections and rolls their transactions back."""

from loadtests.faults.experiment import Experiment, Figure
from loadtests.harness.own_postgres import Shutdown


def restart_postgres(experiment: Experiment) -> list[Figure]:
    """Stop PostgreSQL as `pg_ctl stop -m fast` does, and start it again."""
    experiment.postgres.stop(Shutdown.FAST)
    experiment.postgres.start()
    return []
