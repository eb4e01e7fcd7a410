"""A PostgreSQL that is frozen: its connections stay open, and nothing is answered."""

from loadtests.faults.experiment import REQUEST_TIMEOUT, Experiment, Figure

FROZEN = REQUEST_TIMEOUT + 8  # seconds


def frozen_postgres(experiment: Experiment) -> list[Figure]:
    """Stop all processes of PostgreSQL by SIGSTOP, and have them go on by SIGCONT."""
    processes = experiment.postgres.processes()
    for process in processes:
        process.suspend()
    try:
        experiment.go_on(FROZEN)
    finally:
        for process in processes:
            process.resume()
    return []
