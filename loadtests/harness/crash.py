"""A crash during a run: workers of the service are killed, each with the requests in it."""

import gevent  # type: ignore[import-untyped]
import psutil

from loadtests.harness.load_run import LoadRun


def kill_workers(load: LoadRun) -> None:
    """Kill as many workers as `load.options.kills`, evenly spread over the run.

    Each time it is the worker with the most connections: connections stay where they are, and all
    of them may be those of one worker. The worker is chosen half a pause before it is killed: a
    search among processes stops all users, and the worker would answer their requests meanwhile.
    """
    options = load.options
    pause = options.run_time / (options.kills + 1)
    try:
        for _ in range(options.kills):
            gevent.sleep(pause / 2)
            workers = psutil.Process(options.kill_worker_of).children()
            victim = max(workers, key=lambda worker: len(worker.net_connections("tcp")))
            gevent.sleep(pause / 2)
            if load.stopping:
                return
            victim.kill()
    except (psutil.Error, ValueError):
        load.problem = "--kill-worker-of is not the process id of a gunicorn with workers"
