"""`manage.py distribute`: the tables over a Citus cluster, and back."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction

from project.database import citus, citus_checks
from project.management.commands.migrate import NO_TIMEOUTS
from shorturl.management.database_command import DatabaseCommand

NO_CITUS = "This database has no Citus"
TO_HAVE_IT = "have it in shared_preload_libraries of all nodes, and CREATE EXTENSION citus"
NO_TABLES = "so none of its tables is distributed: connect to the cluster's coordinator"


class Command(DatabaseCommand):
    """Distributes in one transaction; a second time, it finds nothing to do."""

    help = "Distribute links, and what is counted of them, by key over the nodes of Citus."
    what_now = "Nothing was done."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print the SQL, and send none")
        parser.add_argument("--undo", action="store_true", help="make them plain tables again")
        parser.add_argument(
            "--strategies", action="store_true", help="print which strategies run there instead"
        )

    def handle(
        self, *args: Any, dry_run: bool, undo: bool, strategies: bool, **options: Any
    ) -> None:
        """Send it or print it; raise CommandError when it cannot be, with nothing done."""
        if strategies:
            if dry_run or undo:
                raise CommandError("--strategies goes alone, without --dry-run and --undo.")
            self.print_strategies()
            return
        if not citus.rows(citus.INSTALLED):
            if not dry_run:
                why = f", {NO_TABLES}" if undo else f": {TO_HAVE_IT}"
                raise CommandError(f"{NO_CITUS}{why}.")
            self.stderr.write(f"{NO_CITUS}. To one that has it, this would be sent:")
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(NO_TIMEOUTS)  # moving the rows takes as long as it takes
            try:
                needed = citus.statements(undo=undo)
            except citus.NotPossible as error:
                raise CommandError(f"{error}.") from error
            for statement in needed:
                self.stdout.write(f"{statement};")
                if not dry_run:
                    cursor.execute(statement)
        if not needed:
            self.stdout.write("Nothing to do.")

    def print_strategies(self) -> None:
        self.stdout.write("| operation | strategy | on Citus | because |")
        self.stdout.write("| --- | --- | --- | --- |")
        for operation, ways in citus_checks.TABLES.items():
            for name, (how, why) in ways.items():
                self.stdout.write(f"| {operation} | `{name}` | {how} | {why} |")
