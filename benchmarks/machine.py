"""The machine, the versions and the settings that the figures depend on."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from django.db import connection

from loadtests.harness.comparison import machine


def describe(*programs: str) -> dict[str, str]:
    """Return the machine, the versions, and the settings of PostgreSQL that decide the speed."""
    with connection.cursor() as cursor:

        def shown(setting: str) -> str:
            cursor.execute("SELECT current_setting(%s)", [setting])
            return str(cursor.fetchone()[0])

        server = shown("server_version").split()[0]
        durable = [f"{name} {shown(name)}" for name in ("fsync", "synchronous_commit")]
    packages = [f"{name} {version(name)}" for name in ("Django", "psycopg2-binary", "gunicorn")]
    busy = f"{os.getloadavg()[0]:.1f}"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{machine()}, load average before {busy}",
        "versions": ", ".join([f"Python {sys.version.split()[0]}", *packages, *programs]),
        "database": ", ".join([f"PostgreSQL {server}", *durable]),
    }


def commit(checkout: Path) -> str:
    """Return which commit a checkout has, and of when it is."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=commit %h of %cs"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return ended.stdout.strip() or "not in Git"
