"""System checks of the database against the settings: `manage.py check --database default`.

gunicorn runs them at its start. Of a database that is away they find only that. They look at the
connections of the service, also where `manage.py` goes past its PgBouncer.
"""

import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, OperationalError, connections

from project.database import replica
from project.database.pooler_checks import REFUSING, bounded, connected
from project.serving.waiting_hits import ALONE, TOGETHER

# In front of what PostgreSQL keeps for superusers and, from 16 on, for pg_use_reserved_connections.
LIMITS = """
SELECT current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int
       + coalesce(current_setting('reserved_connections', true)::int, 0)
"""
CLOCKS_DIFFER = 1.0  # seconds
# Of one worker: those that count hits, and that of /readyz.
MORE_THREADS = TOGETHER + ALONE + 1


@register(Tags.database)
def check_answers(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn of an address that does not answer, of which no other check has anything to say."""
    if "default" not in (databases or ()):
        return []
    addresses = {
        "DATABASE_URL": settings.SERVICE_DATABASE,
        "DATABASE_DIRECT_URL": settings.DIRECT_DATABASE,
        "DATABASE_REPLICA_URL": connections.settings.get("replica"),
    }
    found: list[CheckMessage] = []
    for name, database in addresses.items():
        if not database:
            continue
        try:
            with bounded(), connected(database):
                pass
        except OperationalError as error:
            (reason, *_) = str(error).splitlines()
            if name == "DATABASE_URL" and REFUSING in reason:
                continue  # which check_pooler explains
            found.append(
                CheckWarning(
                    f"{name} does not answer: {reason}.",
                    hint="Start it, or correct the address; no other check could ask it.",
                    id="project.W005",
                )
            )
    return found


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
            hint="Raise max_connections, lower WORKERS or THREADS, or put a PgBouncer in between.",
            id="project.W002",
        )
    ]


@register(Tags.database)
def check_clocks(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn when the clocks of this machine and of the database differ."""
    if "default" not in (databases or ()):
        return []
    try:
        with connections["default"].cursor() as cursor:
            before = time.time()
            cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
            there, after = cursor.fetchone()[0], time.time()
    except OperationalError:
        return []
    differ = max(before - there, there - after)
    if differ <= CLOCKS_DIFFER:
        return []
    return [
        CheckWarning(
            f"The clocks of this machine and of the database differ by {differ:.1f} s.",
            hint="Synchronise both, for example by NTP: an expiry is decided by the database's.",
            id="project.W010",
        )
    ]


@register(Tags.database)
def check_replica(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a replica of another database, and warn of one that is none."""
    if "default" not in (databases or ()) or "replica" not in connections:
        return []
    try:
        same = replica.row("default", replica.IDENTITY) == replica.row("replica", replica.IDENTITY)
        in_recovery, _ = replica.row("replica", replica.REPLAYED)
    except DatabaseError:
        return []
    if not same:
        return [
            Error(
                "DATABASE_REPLICA_URL is not a replica of DATABASE_URL: server or database differ "
                "(system_identifier of pg_control_system(), current_database()).",
                hint="Name the same database on a server that was copied with pg_basebackup.",
                id="project.E004",
            )
        ]
    if not in_recovery:
        return [
            CheckWarning(
                "DATABASE_REPLICA_URL leads to a server that is not in recovery: it is never read.",
                hint="Name a streaming replica, or leave DATABASE_REPLICA_URL unset.",
                id="project.W004",
            )
        ]
    return []
