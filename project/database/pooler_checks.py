"""System checks of a PgBouncer between, and of the addresses on both sides of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from psycopg2 import extensions

from project.database import deadlines, replica

LOOKS = 20  # for a session that two connections share
PATIENCE = 5  # seconds

# What a PgBouncer says that takes no settings with a connection.
REFUSING = "unsupported startup parameter"
# The limits of a session, and whose default is none.
UNLIMITED = """
SELECT name FROM pg_settings WHERE setting = '0' AND name = ANY (%s) ORDER BY name
"""

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


Check = Callable[[], Iterable[CheckMessage]]


def asks_the_database(check: Check) -> Check:
    """Register a check of the database, which finds nothing where that cannot be asked."""

    @register(Tags.database)
    def checked(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
        try:
            return list(check()) if "default" in (databases or ()) else []
        except DatabaseError:
            return []

    return check


@asks_the_database
def check_pooler() -> Iterator[CheckMessage]:
    """Refuse a PgBouncer that pools in another way than DATABASE_POOLER says, or warn of it."""
    try:
        database = settings.SERVICE_DATABASE
        with bounded(), connected(database) as one, connected(database) as other:
            found = pooling(one, other)
            unlimited = limits_missing(one) if found in ("session", "transaction") else []
    except OperationalError as error:
        if REFUSING not in str(error):
            return
        found, unlimited = "refusing", []
    if message := POOLING.get((settings.DATABASE_POOLER, found)) or POOLING.get(("", found)):
        yield message
    if unlimited:
        yield CheckWarning(
            f"The sessions of the PgBouncer have no {' and no '.join(unlimited)}: the service "
            "cannot set them there.",
            hint=f"Set them with ALTER ROLE, or in transaction mode by its connect_query. {SEE}",
            id="project.W006",
        )


def limits_missing(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the limits that the settings have and the session has not."""
    limits = {
        "statement_timeout": settings.DATABASE_STATEMENT_TIMEOUT,
        "lock_timeout": settings.DATABASE_LOCK_TIMEOUT,
        "idle_in_transaction_session_timeout": settings.DATABASE_IDLE_IN_TRANSACTION_TIMEOUT,
    }
    with connection.cursor() as cursor:
        cursor.execute(UNLIMITED, [[name for name, limit in limits.items() if limit]])
        return [name for (name,) in cursor.fetchall()]


@asks_the_database
def check_direct() -> Iterator[CheckMessage]:
    """Refuse a DATABASE_DIRECT_URL of another database, on which commands would then work."""
    if not settings.DIRECT_DATABASE:
        return
    with (
        bounded(),
        connected(settings.SERVICE_DATABASE) as service,
        connected(settings.DIRECT_DATABASE) as direct,
    ):
        same = identity(service) == identity(direct)
    if not same:
        yield Error(
            "DATABASE_DIRECT_URL leads to another database than DATABASE_URL: server or database "
            "differ (system_identifier of pg_control_system(), current_database()).",
            hint="Name the database that the PgBouncer of DATABASE_URL leads to.",
            id="project.E008",
        )


def identity(connection: BaseDatabaseWrapper) -> tuple[Any, ...]:
    """Return which database of which server it is."""
    with connection.cursor() as cursor:
        cursor.execute(replica.IDENTITY)
        found: tuple[Any, ...] = cursor.fetchone()
    return found


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
def connected(database: dict[str, Any]) -> Iterator[BaseDatabaseWrapper]:
    """Have a connection of its own, by these settings of a database, for the length of the block.

    Raises OperationalError.
    """
    connection = ConnectionHandler({"default": database})["default"]
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
