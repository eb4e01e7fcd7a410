"""System checks of the database against the settings: `manage.py check --database default`.

gunicorn runs them at its start. If the database is down, they report only that. They check the
connections of the service, even where `manage.py` bypasses its PgBouncer.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from psycopg2 import extensions

from project.accounts.reset import MAILERS
from project.database import deadlines
from project.serving.waiting_hits import ALONE, TOGETHER
from shorturl.events.subscribing import MOST as RECEIVERS

LOOKS = 20  # attempts to see two connections share a session
PATIENCE = 5  # seconds
CLOCKS_DIFFER = 1.0  # seconds
# The limit, and the connections reserved for superusers and, from PostgreSQL 16 on, for
# pg_use_reserved_connections.
LIMITS = """
SELECT current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int
       + coalesce(current_setting('reserved_connections', true)::int, 0)
"""
# The limits that a session does not have.
UNLIMITED = """
SELECT string_agg(name, ' and no ' ORDER BY name) FROM pg_settings
WHERE setting = '0' AND name = ANY (%s)
"""
# The error of a PgBouncer that refuses settings sent with a connection.
REFUSING = "unsupported startup parameter"
# Two servers agree in both only if one is a copy of the other, by pg_basebackup.
IDENTITY = "SELECT system_identifier, current_database() FROM pg_control_system()"
DIFFER = "server or database differ (system_identifier of pg_control_system(), current_database())."
SEE = "docs/several-machines.md, “Behind PgBouncer”, has what it needs."
# By DATABASE_POOLER ("" for any value), and by what pooling() found.
POOLING: dict[tuple[str, str], CheckMessage] = {
    ("none", "refusing"): Error(
        "DATABASE_URL leads to a PgBouncer that refuses settings sent with a connection.",
        hint=f"Set DATABASE_POOLER=transaction. {SEE}",
        id="project.E002",
    ),
    ("none", "transaction"): Error(
        "DATABASE_URL leads to a PgBouncer in transaction mode, and DATABASE_POOLER is none: "
        "cursors would be lost between statements, and the limits of statements are not set.",
        hint=f"Set DATABASE_POOLER=transaction. {SEE}",
        id="project.E002",
    ),
    ("", "statement"): Error(
        "DATABASE_URL leads to a PgBouncer in statement mode, which allows no transactions.",
        hint=f"Set pool_mode = transaction in PgBouncer. {SEE}",
        id="project.E003",
    ),
    ("transaction", "session"): CheckWarning(
        "DATABASE_URL leads to a PgBouncer in session mode, or all its sessions are busy: each "
        "thread keeps a session in spite of DATABASE_POOLER=transaction.",
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
Check = Callable[[], Iterable[CheckMessage]]


def asks_the_database(check: Check) -> Check:
    """Register a check of the database, which finds nothing if the database is down."""

    @register(Tags.database)
    def checked(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
        try:
            return list(check()) if "default" in (databases or ()) else []
        except DatabaseError:
            return []

    return check


@contextmanager
def bounded(seconds: float = PATIENCE) -> Iterator[None]:
    """Limit waiting for the database, as a PgBouncer may have no session free.

    Raises OperationalError in the block.
    """
    before = extensions.get_wait_callback()
    deadlines.install()
    try:
        with deadlines.answered_within(seconds):
            yield
    finally:
        extensions.set_wait_callback(before)


@contextmanager
def connected(database: dict[str, Any]) -> Iterator[BaseDatabaseWrapper]:
    """Yield a new connection with these settings, bounded(); raise OperationalError."""
    with bounded(), closing(ConnectionHandler({"default": database})["default"]) as connection:
        connection.ensure_connection()
        yield connection


@asks_the_database
def check_answers() -> Iterator[CheckMessage]:
    """Warn of an address that does not answer; no other check reports it."""
    addresses = {
        "DATABASE_URL": settings.SERVICE_DATABASE,
        "DATABASE_DIRECT_URL": settings.DIRECT_DATABASE,
    }
    for name, database in addresses.items():
        try:
            if database:
                with connected(database):
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
    """Warn if all machines together may open more connections than PostgreSQL allows."""
    if settings.DATABASE_POOLER != "none":
        return
    most, reserved = row(connections["default"], LIMITS)
    machines, workers, threads = settings.MACHINES, settings.WORKERS, settings.THREADS
    more = more_threads()
    wanted = machines * workers * (threads + more)
    if wanted > most - reserved:
        yield CheckWarning(
            f"The service may open {wanted:,} connections: MACHINES {machines} × WORKERS {workers} "
            f"× (THREADS {threads} + {more}). PostgreSQL allows {most - reserved:,}: "
            f"max_connections {most} less {reserved} reserved ones.",
            hint="Raise max_connections, lower WORKERS or THREADS, or put a PgBouncer in between.",
            id="project.W002",
        )


def more_threads() -> int:
    """Return how many threads with a connection each worker may have beside THREADS."""
    redirects, readyz = TOGETHER + ALONE, 1
    e_mails = MAILERS if settings.EMAIL_URL else 0
    deliveries = RECEIVERS + 1 if settings.SHORTURL_DELIVER else 0
    return redirects + readyz + e_mails + deliveries


@asks_the_database
def check_clocks() -> Iterator[CheckMessage]:
    """Warn when the clocks of this machine and of the database differ."""
    connections["default"].ensure_connection()
    before = time.time()
    (there,) = row(connections["default"], "SELECT extract(epoch FROM clock_timestamp())::float8")
    differ = max(before - there, there - time.time())
    if differ > CLOCKS_DIFFER:
        yield CheckWarning(
            f"The clocks of this machine and of the database differ by {differ:.1f} s.",
            hint="Synchronise both, for example by NTP: the database's clock decides an expiry.",
            id="project.W010",
        )


@asks_the_database
def check_direct() -> Iterator[CheckMessage]:
    """Refuse a DATABASE_DIRECT_URL of another database: commands would change that one."""
    if not settings.DIRECT_DATABASE:
        return
    with (
        connected(settings.SERVICE_DATABASE) as service,
        connected(settings.DIRECT_DATABASE) as direct,
    ):
        same = row(service, IDENTITY) == row(direct, IDENTITY)
    if not same:
        yield Error(
            f"DATABASE_DIRECT_URL leads to another database than DATABASE_URL: {DIFFER}",
            hint="Name the database that the PgBouncer of DATABASE_URL leads to.",
            id="project.E008",
        )


@asks_the_database
def check_pooler() -> Iterator[CheckMessage]:
    """Refuse a PgBouncer whose pool mode contradicts DATABASE_POOLER, or warn of it."""
    limits = {
        "statement_timeout": settings.DATABASE_STATEMENT_TIMEOUT,
        "lock_timeout": settings.DATABASE_LOCK_TIMEOUT,
        "idle_in_transaction_session_timeout": settings.DATABASE_IDLE_IN_TRANSACTION_TIMEOUT,
    }
    unlimited = None
    try:
        database = settings.SERVICE_DATABASE
        with connected(database) as one, connected(database) as other:
            found = pooling(one, other)
            if found in ("session", "transaction"):
                (unlimited,) = row(one, UNLIMITED, [[name for name in limits if limits[name]]])
    except OperationalError as error:
        if REFUSING not in str(error):
            return
        found = "refusing"
    if message := POOLING.get((settings.DATABASE_POOLER, found)) or POOLING.get(("", found)):
        yield message
    if unlimited:
        yield CheckWarning(
            f"The sessions of the PgBouncer have no {unlimited}: the service cannot set them "
            "there.",
            hint=f"Set them by ALTER ROLE, or in transaction mode by connect_query. {SEE}",
            id="project.W006",
        )


def pooling(one: BaseDatabaseWrapper, other: BaseDatabaseWrapper) -> str:
    """Return the pool mode of a PgBouncer: session, transaction or statement; none without one.

    A session that both connections get proves that the mode is not session. If all sessions are
    busy during all LOOKS, the result is session in transaction mode, too.
    """
    backend = "SELECT pg_backend_pid()"
    if row(one, backend) == (one.connection.get_backend_pid(),):
        return "none"  # a PgBouncer tells its clients another process id
    try:
        one.set_autocommit(False)
        row(one, backend)
        one.rollback()
        one.set_autocommit(True)
    except DatabaseError:
        return "statement"
    shared = any(row(one, backend) == row(other, backend) for _ in range(LOOKS))
    return "transaction" if shared else "session"


def row(connection: BaseDatabaseWrapper, statement: str, values: Any = None) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: tuple[Any, ...] = cursor.fetchone()
    return found
