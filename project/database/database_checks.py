"""System checks of the database against the settings: `manage.py check --database default`.

gunicorn runs them at its start. Of a database that is away they find only that. They look at the
connections of the service, also where `manage.py` goes past its PgBouncer.
"""

import time
from collections.abc import Iterator

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import OperationalError, connections

from project.database import replica
from project.database.pooler_checks import REFUSING, asks_the_database, bounded, connected
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


@asks_the_database
def check_answers() -> Iterator[CheckMessage]:
    """Warn of an address that does not answer, of which no other check has anything to say."""
    addresses = {
        "DATABASE_URL": settings.SERVICE_DATABASE,
        "DATABASE_DIRECT_URL": settings.DIRECT_DATABASE,
        "DATABASE_REPLICA_URL": connections.settings.get("replica"),
    }
    for name, database in addresses.items():
        if not database:
            continue
        try:
            with bounded(), connected(database):
                pass
        except OperationalError as error:
            (reason, *_) = str(error).splitlines()
            if name != "DATABASE_URL" or REFUSING not in reason:  # which check_pooler explains
                yield CheckWarning(
                    f"{name} does not answer: {reason}.",
                    hint="Start it, or correct the address; no other check could ask it.",
                    id="project.W005",
                )


@asks_the_database
def check_connections() -> Iterator[CheckMessage]:
    """Warn when all machines together may open more connections than PostgreSQL takes."""
    if settings.DATABASE_POOLER != "none":
        return
    most, reserved = replica.row("default", LIMITS)
    machines, workers, threads = settings.MACHINES, settings.WORKERS, settings.THREADS
    wanted = machines * workers * (threads + MORE_THREADS)
    if wanted > most - reserved:
        yield CheckWarning(
            f"The service may open {wanted:,} connections: MACHINES {machines} × WORKERS {workers} "
            f"× (THREADS {threads} + {MORE_THREADS}); PostgreSQL takes {most - reserved:,}: "
            f"max_connections {most} less {reserved} that are reserved.",
            hint="Raise max_connections, lower WORKERS or THREADS, or put a PgBouncer in between.",
            id="project.W002",
        )


@asks_the_database
def check_clocks() -> Iterator[CheckMessage]:
    """Warn when the clocks of this machine and of the database differ."""
    connections["default"].ensure_connection()
    before = time.time()
    (there,) = replica.row("default", "SELECT extract(epoch FROM clock_timestamp())::float8")
    differ = max(before - there, there - time.time())
    if differ > CLOCKS_DIFFER:
        yield CheckWarning(
            f"The clocks of this machine and of the database differ by {differ:.1f} s.",
            hint="Synchronise both, for example by NTP: an expiry is decided by the database's.",
            id="project.W010",
        )


@asks_the_database
def check_replica() -> Iterator[CheckMessage]:
    """Refuse a replica of another database, and warn of one that is none."""
    if "replica" not in connections:
        return
    same = replica.row("default", replica.IDENTITY) == replica.row("replica", replica.IDENTITY)
    in_recovery, _ = replica.row("replica", replica.REPLAYED)
    if not same:
        yield Error(
            "DATABASE_REPLICA_URL is not a replica of DATABASE_URL: server or database differ "
            "(system_identifier of pg_control_system(), current_database()).",
            hint="Name the same database on a server that was copied with pg_basebackup.",
            id="project.E004",
        )
    elif not in_recovery:
        yield CheckWarning(
            "DATABASE_REPLICA_URL leads to a server that is not in recovery: it is never read.",
            hint="Name a streaming replica, or leave DATABASE_REPLICA_URL unset.",
            id="project.W004",
        )
