"""Django's migrate, one process at a time. Any other process waits, and then has nothing to do."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DatabaseError, Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from shorturl.outages import driver_error

# https://www.postgresql.org/docs/18/errcodes-appendix.html
INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE = "42501", "55P03"
LOCK = "shorturl migrate"
WAITING = "Another process is migrating this database: waiting for it to finish."
PAUSE = 0.2  # seconds between two attempts to get it
OWN_APPS = ("shorturl", "exhibits", "lab")
# A process waits for the lock as long as another one migrates. The transaction that has the lock is
# idle during the migration. transaction_timeout is new in PostgreSQL 17.
NO_TIMEOUTS = """
SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN
    ('lock_timeout', 'statement_timeout', 'transaction_timeout',
     'idle_in_transaction_session_timeout')
"""


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        if options["plan"] or options["check_unapplied"]:  # these change nothing
            super().handle(*args, **options)
            return
        try:
            with (
                alone(options["database"], waiting=partial(self.stderr.write, WAITING)),
                without_statement_timeout(connections[options["database"]]),
            ):
                refuse_former(connections[options["database"]])
                # pginterleave: alone - it has the migration lock; the service may write meanwhile,
                # and waits for the table locks of a migration
                super().handle(*args, **options)
        except DatabaseError as error:
            if refusal := driver_error(error, INSUFFICIENT_PRIVILEGE):
                raise CommandError(
                    f"PostgreSQL refuses: {str(refusal).splitlines()[0]}. Migrate with the role "
                    "that owns the database and its tables, for example after: "
                    "ALTER DATABASE shorturl OWNER TO shorturl"
                ) from error
            if driver_error(error, LOCK_NOT_AVAILABLE):
                raise CommandError(
                    "A table that this migration changes is in use: run it again with a longer "
                    "DATABASE_LOCK_TIMEOUT, or stop what uses the table."
                ) from error
            raise


def refuse_former(connection: BaseDatabaseWrapper) -> None:
    """Raise CommandError for a database whose tables a former state of the project made."""
    former = {
        name
        for name in MigrationRecorder(connection).applied_migrations()
        if name[0] in OWN_APPS and name not in MigrationLoader(None).disk_migrations
    }
    if former:
        raise CommandError(
            f"A former state of the project made this database: it has {'.'.join(min(former))}. "
            "Export its links with that state (manage.py export_links), and import them into a "
            "new database (manage.py import_links)."
        )


@contextmanager
def without_statement_timeout(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Remove the limit on the time of statements on `connection` within the block.

    SET would stay in force in a session of a PgBouncer in transaction mode. A connection to a
    PgBouncer is sent no options, so there the limit of the role stays.
    """
    options = connection.settings_dict["OPTIONS"]
    limited = options.get("options")
    connection.close()
    if limited:
        options["options"] = f"{limited} -c statement_timeout=0"
    try:
        yield
    finally:
        connection.close()
        if limited:
            options["options"] = limited


@contextmanager
def alone(alias: str, *, waiting: Callable[[], object]) -> Iterator[BaseDatabaseWrapper]:
    """Hold the migration lock of the database `alias` within the block; yield its connection.

    Calls `waiting` when another process has the lock. The lock belongs to a transaction on a
    separate connection, as each migration is a transaction. A session's lock would stay behind in a
    session of a PgBouncer in transaction mode.
    """
    keeper = connections[alias].copy()
    try:
        keeper.set_autocommit(False)
        with keeper.cursor() as cursor:
            cursor.execute(NO_TIMEOUTS)
            # No statement waits for the lock: CREATE INDEX CONCURRENTLY waits for every statement
            # that began before it, so the holder of the lock would wait in turn.
            if not has_lock(cursor):
                waiting()
                while not has_lock(cursor):
                    time.sleep(PAUSE)
        yield keeper
    finally:
        with suppress(Error):
            keeper.rollback()
        keeper.close()


def has_lock(cursor: CursorWrapper) -> bool:
    """Take the migration lock if it is free; return whether it was."""
    cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [LOCK])
    return bool(cursor.fetchone()[0])
