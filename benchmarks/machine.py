"""What the figures were measured on."""

import os
import platform
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from django.db import connection


def describe(*programs: str) -> dict[str, str]:
    """Return the machine, the versions, and what of PostgreSQL's settings decides the speed."""
    with connection.cursor() as cursor:

        def shown(setting: str) -> str:
            cursor.execute("SELECT current_setting(%s)", [setting])
            return str(cursor.fetchone()[0])

        server = shown("server_version").split()[0]
        durable = [f"{name} {shown(name)}" for name in ("fsync", "synchronous_commit")]
    packages = [f"{name} {version(name)}" for name in ("Django", "psycopg2-binary", "gunicorn")]
    system = f"{platform.system()} {platform.release()}"
    busy = f"{os.getloadavg()[0]:.1f}"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} × {processor()}, {system}, load average before {busy}",
        "versions": ", ".join([f"Python {sys.version.split()[0]}", *packages, *programs]),
        "database": ", ".join([f"PostgreSQL {server}", *durable]),
    }


def processor() -> str:
    """Return the processor's name, as far as the system tells."""
    try:
        told = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE
        )
    except OSError:
        told = None
    return told[1] if told else platform.processor() or platform.machine()
