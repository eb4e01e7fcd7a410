"""`manage.py distribute`: distribute the tables over a Citus cluster, or undo it."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction

from project.citus import distribution
from shorturl.management.database_command import DatabaseCommand

# Moving many rows takes long.
NO_TIMEOUTS = """
SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN
    ('lock_timeout', 'statement_timeout', 'transaction_timeout',
     'idle_in_transaction_session_timeout')
"""
NO_CITUS = (
    "This database has no Citus: connect to the coordinator of a cluster that has citus in "
    "shared_preload_libraries, and CREATE EXTENSION citus."
)


class Command(DatabaseCommand):
    """Distributes in one transaction; a second run has nothing to do."""

    help = "Distribute links, their hits and visits by key over the nodes of a Citus cluster."
    what_now = "Nothing was done."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only print the SQL")
        parser.add_argument("--undo", action="store_true", help="make plain tables again")

    def handle(self, *args: Any, dry_run: bool, undo: bool, **options: Any) -> None:
        """Send or print the SQL; raise CommandError, with nothing done, when that fails."""
        if not distribution.fetch_rows(distribution.INSTALLED):
            if not dry_run:
                raise CommandError(NO_CITUS)
            self.stderr.write(f"{NO_CITUS} There this would be sent:")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(NO_TIMEOUTS)
            statements = distribution.list_statements(undo=undo)
            for statement in statements:
                self.stdout.write(f"{statement};")
                if not dry_run:
                    cursor.execute(statement)
        if not statements:
            self.stdout.write("Nothing to do.")
