"""System checks of the database against the settings: `manage.py check --database default`.

gunicorn runs them at its start. They find nothing while the database is away.
"""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import OperationalError, connections

# In front of what PostgreSQL keeps for superusers and, from 16 on, for pg_use_reserved_connections.
LIMITS = """
SELECT current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int
       + coalesce(current_setting('reserved_connections', true)::int, 0)
"""
# Of one worker: /readyz has a thread of its own.
MORE_THREADS = 1


@register(Tags.database)
def check_connections(
    *, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Warn when all machines together may open more connections than PostgreSQL takes."""
    if "default" not in (databases or ()) or settings.DATABASE_POOLER != "none":
        return []
    try:
        with connections["default"].cursor() as cursor:
            cursor.execute(LIMITS)
            most, reserved = cursor.fetchone()
    except OperationalError:
        return []
    machines, workers, threads = settings.MACHINES, settings.WORKERS, settings.THREADS
    wanted = machines * workers * (threads + MORE_THREADS)
    if wanted <= most - reserved:
        return []
    return [
        CheckWarning(
            f"The service may open {wanted:,} connections: MACHINES {machines} × WORKERS {workers} "
            f"× (THREADS {threads} + {MORE_THREADS}); PostgreSQL takes {most - reserved:,}: "
            f"max_connections {most} less {reserved} that are reserved.",
            hint="Raise max_connections, lower WORKERS or THREADS, or put a PgBouncer between.",
            id="project.W002",
        )
    ]
