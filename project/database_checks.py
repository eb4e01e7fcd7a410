"""System checks of the database against the settings: `manage.py check --database default`.

gunicorn runs them at its start. They find nothing while the database is away. They look at the
connections of the service, also where `manage.py` goes past its PgBouncer.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from psycopg2 import extensions

from project import deadlines, replica

# In front of what PostgreSQL keeps for superusers and, from 16 on, for pg_use_reserved_connections.
LIMITS = """
SELECT current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int
       + coalesce(current_setting('reserved_connections', true)::int, 0)
"""
# Of one worker: /readyz has a thread of its own.
MORE_THREADS = 1
LOOKS = 20  # for a session that two connections share
PATIENCE = 5  # seconds

SEE = "docs/deploying.md, “Behind PgBouncer”, has what it needs."
# By DATABASE_POOLER, or whatever it is, and what was found.
POOLING: dict[tuple[str, str], CheckMessage] = {
    ("none", "refusing"): Error(
        "DATABASE_URL leads to a PgBouncer, which takes no settings with a connection.",
        hint=f"Set DATABASE_POOLER=transaction. {SEE}",
        id="project.E002",
    ),
    ("none", "transaction"): Error(
        "DATABASE_URL leads to a PgBouncer in transaction mode, and DATABASE_POOLER is none: "
        "cursors would be lost on their way, and the limits of statements are not set.",
        hint=f"Set DATABASE_POOLER=transaction. {SEE}",
        id="project.E002",
    ),
    ("", "statement"): Error(
        "DATABASE_URL leads to a PgBouncer in statement mode, which allows no transactions.",
        hint=f"Set pool_mode = transaction in PgBouncer. {SEE}",
        id="project.E003",
    ),
    ("transaction", "session"): CheckWarning(
        "DATABASE_URL leads to a PgBouncer in session mode, or all its sessions are busy: with "
        "DATABASE_POOLER=transaction each thread keeps a session all the same.",
        hint=f"Set pool_mode = transaction in PgBouncer. {SEE}",
        id="project.W003",
    ),
    ("transaction", "none"): CheckWarning(
        "DATABASE_POOLER is transaction, and DATABASE_URL leads to PostgreSQL itself: the limits "
        "of statements are not sent with the connection.",
        hint="Leave DATABASE_POOLER unset.",
        id="project.W003",
    ),
}


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


@register(Tags.database)
def check_pooler(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a PgBouncer that pools in another way than DATABASE_POOLER says, or warn of it."""
    if "default" not in (databases or ()):
        return []
    try:
        with bounded(), service_connection() as one, service_connection() as other:
            found = pooling(one, other)
    except OperationalError as error:
        if "unsupported startup parameter" not in str(error):
            return []
        found = "refusing"
    message = POOLING.get((settings.DATABASE_POOLER, found)) or POOLING.get(("", found))
    return [message] if message else []


def pooling(one: BaseDatabaseWrapper, other: BaseDatabaseWrapper) -> str:
    """Return what a PgBouncer between pools: session, transaction or statement; none without one.

    A session that both connections are given proves that it is not by session. Where all are busy
    for as long as this looks, they are given different ones all the same.
    """
    if one.connection.get_backend_pid() == backend(one):
        return "none"  # a PgBouncer tells its clients a number of its own
    try:
        one.set_autocommit(False)
        backend(one)
        one.rollback()
        one.set_autocommit(True)
    except DatabaseError:
        return "statement"
    shared = any(backend(one) == backend(other) for _ in range(LOOKS))
    return "transaction" if shared else "session"


def backend(connection: BaseDatabaseWrapper) -> int:
    """Return the process of PostgreSQL that answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@contextmanager
def service_connection() -> Iterator[BaseDatabaseWrapper]:
    """Have another connection, of the kind that the service has, for the length of the block."""
    connection = ConnectionHandler({"default": settings.SERVICE_DATABASE})["default"]
    with closing(connection):
        connection.ensure_connection()
        yield connection


@contextmanager
def bounded() -> Iterator[None]:
    """Wait for the database a few seconds at most, as a PgBouncer may have no session free.

    Raises OperationalError in the block.
    """
    before = extensions.get_wait_callback()
    deadlines.install()
    try:
        with deadlines.answered_within(PATIENCE):
            yield
    finally:
        extensions.set_wait_callback(before)


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
