"""`python -m embedded_postgres.watch DIRECTORY` stops the server there when no process uses it.

A process that is killed cannot stop the server. Django's runserver kills its child, which has the
connections, when it is terminated itself.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from embedded_postgres import locks

INTERVAL = 1.0  # seconds between two checks
TIMEOUT = 60  # seconds for another process to start or stop the server


def watch(directory: Path) -> None:
    """Return when the server has ended; stop it when no process uses it."""
    time.sleep(INTERVAL)
    while locks.is_taken(directory / "alive.lock"):
        with locks.exclusive(directory / "start.lock", timeout=TIMEOUT):
            used = locks.is_taken(directory / "users.lock")
        if not used:
            from embedded_postgres.server import server_in  # with Django and the driver

            server_in(directory).stop_unless_used()
        time.sleep(INTERVAL)


def start_watching(directory: Path) -> None:
    """Start a process that watches the server. It is no child of this process, and outlives it."""
    package = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    subprocess.run(  # noqa: S603 - this program
        ["/bin/sh", "-c", '"$@" &', "sh", sys.executable, "-m", __name__, str(directory)],
        check=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C must not reach it
    )


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
