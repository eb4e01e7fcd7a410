"""What the programs that measure the service with wrk share: how they start, and how they fail."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import django
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from benchmarks import wrk
from loadtests.harness.serving import NotServed


def program(name: str, measure: Callable[[], int]) -> int:
    """Set Django up and measure; return its exit code, or 2 after one line that says why not."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    try:
        wrk.find()
        django.setup()
        return measure()
    except (
        wrk.Missing, wrk.NoAnswer, NotServed, ImproperlyConfigured, DatabaseError, OSError
    ) as error:  # fmt: skip
        reason = str(error).strip().splitlines()[0]
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or error.stdout.strip() or "no reason").splitlines()[-1]
        ended = f"{Path(error.cmd[0]).name} ended with exit code {error.returncode}"
        reason = f"{ended}: {said}"
    except subprocess.TimeoutExpired as error:
        limit = f"{error.timeout:.0f} seconds"
        reason = f"{Path(error.cmd[0]).name} did not end within {limit}"
    except KeyboardInterrupt:
        reason = "stopped"
    print(f"{name}: {reason}", file=sys.stderr)
    return 2
