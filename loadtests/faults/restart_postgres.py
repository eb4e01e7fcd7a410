"""A restart of PostgreSQL, which closes all connections and rolls their transactions back."""

from loadtests.faults.experiment import Experiment
from loadtests.harness.own_postgres import Shutdown


def restart_postgres(experiment: Experiment) -> None:
    """Stop PostgreSQL as `pg_ctl stop -m fast` does, and start it again."""
    experiment.postgres.stop(Shutdown.FAST)
    experiment.postgres.start()
