"""kill -9 of a gunicorn worker, with the requests that it is answering."""

import psutil

from loadtests.faults.experiment import Experiment


def kill_worker(experiment: Experiment) -> None:
    """Kill the worker with the most connections, and wait until gunicorn has replaced it."""
    victim = max(experiment.master.children(), key=_connections)
    victim.kill()

    def replaced() -> bool:
        workers = experiment.master.children()
        return victim not in workers and len(workers) == experiment.workers

    experiment.wait(replaced, "gunicorn does not replace the worker that was killed")


def _connections(worker: psutil.Process) -> int:
    try:
        return len(worker.net_connections("inet"))
    except psutil.NoSuchProcess:
        return -1
