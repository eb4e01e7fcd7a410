"""Two `manage.py migrate` at once, on an empty database."""

import os
import subprocess
import sys
from collections.abc import Iterator

from loadtests.faults.experiment import TIMEOUT, Experiment, Figure
from loadtests.harness.serving import ROOT


def two_migrations(experiment: Experiment) -> Iterator[Figure]:
    """Migrate an empty database beside the service's by two processes at the same time."""
    with experiment.postgres.another_database() as url:
        both = [
            subprocess.Popen(
                [sys.executable, "manage.py", "migrate"],
                cwd=ROOT,
                env={**os.environ, "SHORTURL_LOCAL": "on", "DATABASE_URL": url},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]
        try:
            failed = sum(process.wait(TIMEOUT) != 0 for process in both)
        finally:
            for process in both:
                process.kill()
                process.wait()
    yield Figure("failed migrations", failed, 0)
