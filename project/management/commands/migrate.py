"""Django's migrate, one process at a time: any other waits, and finds nothing left to do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DatabaseError, Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

INSUFFICIENT_PRIVILEGE = "42501"  # https://www.postgresql.org/docs/18/errcodes-appendix.html
LOCK = "shorturl migrate"
# Whoever waits for the lock waits for as long as the migrations of another take, and whoever has it
# is idle in its transaction meanwhile. transaction_timeout is PostgreSQL 17's.
NO_TIMEOUTS = """
SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN
    ('lock_timeout', 'statement_timeout', 'transaction_timeout',
     'idle_in_transaction_session_timeout')
"""


class Command(migrate.Command):
    """`manage.py migrate`, which the start of a local run calls, too."""

    def handle(self, *args: Any, **options: Any) -> None:
        if options["plan"] or options["check_unapplied"]:  # which change nothing
            super().handle(*args, **options)
            return
        try:
            with alone(options["database"], waiting=self.say_why):
                super().handle(*args, **options)
        except DatabaseError as error:
            if refusal := insufficient_privilege(error):
                raise CommandError(
                    f"PostgreSQL refuses: {refusal}. Migrate with the role that owns the database "
                    "and its tables, for example after: ALTER DATABASE shorturl OWNER TO shorturl"
                ) from error
            raise

    def say_why(self) -> None:
        """Tell whoever looks on that it is a wait with an end."""
        self.stderr.write("Another process is migrating this database: waiting for it to finish.")


def insufficient_privilege(error: BaseException | None) -> str | None:
    """Return what PostgreSQL says of a privilege that is missing, None for any other error."""
    while error is not None:
        if getattr(error, "pgcode", None) == INSUFFICIENT_PRIVILEGE:
            return str(error).splitlines()[0]
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def alone(alias: str, *, waiting: Callable[[], object]) -> Iterator[BaseDatabaseWrapper]:
    """Keep the migration lock of the database `alias` within the block; yield what keeps it.

    Calls `waiting` when another process has it. The lock belongs to a transaction on a connection
    of its own: a session's lock would stay behind in a PgBouncer that pools transactions, on
    whichever connection of the server it was taken. Migrations have transactions of their own.
    """
    keeper = connections[alias].copy()
    try:
        keeper.set_autocommit(False)
        with keeper.cursor() as cursor:
            cursor.execute(NO_TIMEOUTS)
            cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [LOCK])
            if cursor.fetchone() != (True,):
                waiting()
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [LOCK])
        yield keeper
    finally:
        with suppress(Error):
            keeper.rollback()
        keeper.close()
