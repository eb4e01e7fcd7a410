"""kill -9 of a gunicorn worker, with the requests that it is answering."""

from collections.abc import Iterator

import psutil

from loadtests.faults.experiment import Experiment, Figure


def kill_worker(experiment: Experiment) -> Iterator[Figure]:
    """Kill the worker with the most connections, and wait until gunicorn has replaced it."""
    before = experiment.master.children()
    victim = max(before, key=_connections)
    victim.kill()

    def replaced() -> bool:
        workers = experiment.master.children()
        return victim not in workers and len(workers) == len(before)

    took = experiment.wait(replaced, "gunicorn does not replace the worker that was killed")
    yield Figure("replaced after", took, 5, " s")


def _connections(worker: psutil.Process) -> int:
    try:
        return len(worker.net_connections("inet"))
    except psutil.NoSuchProcess:
        return -1
