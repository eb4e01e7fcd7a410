"""`manage.py distribute`: distribute the tables over a Citus cluster, or undo it."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction

from project.citus.distribution import INSTALLED, list_statements
from project.database.database_checks import fetch_rows
from shorturl.management.database_command import DatabaseCommand


class Command(DatabaseCommand):
    """Distributes tables in one transaction; a second run has nothing to do."""

    help = "Distribute links, their hits and visits by key over the nodes of a Citus cluster."
    what_now = "Nothing was done."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--undo", action="store_true", help="make plain tables again")

    def handle(self, *args: Any, undo: bool, **options: Any) -> None:
        """Send the SQL and print it; raise CommandError, with nothing done, when that fails."""
        if not fetch_rows(INSTALLED):
            raise CommandError(
                "This database has no Citus: connect to the coordinator of a cluster that has "
                "citus in shared_preload_libraries, and CREATE EXTENSION citus."
            )
        with transaction.atomic(), connection.cursor() as cursor:
            statements = list_statements(undo=undo)
            for statement in statements:
                self.stdout.write(f"{statement};")
                cursor.execute(statement)
        if not statements:
            self.stdout.write("Nothing to do.")
