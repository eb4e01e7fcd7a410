"""`manage.py distribute`: the tables over a Citus cluster, and back."""

from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction

from project.database import citus, citus_strategies
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
        """Add the switches."""
        parser.add_argument("--dry-run", action="store_true", help="print the SQL, and send none")
        parser.add_argument("--undo", action="store_true", help="make them plain tables again")
        parser.add_argument(
            "--strategies", action="store_true", help="print which strategies run there instead"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Send it or print it; raise CommandError when it cannot be, with nothing done."""
        if options["strategies"]:
            if options["dry_run"] or options["undo"]:
                raise CommandError("--strategies goes alone, without --dry-run and --undo.")
            self.stdout.write("\n".join(table()))
            return
        try:
            if not citus.is_installed():
                if not options["dry_run"]:
                    why = f", {NO_TABLES}" if options["undo"] else f": {TO_HAVE_IT}"
                    raise CommandError(f"{NO_CITUS}{why}.")
                self.stderr.write(f"{NO_CITUS}. To one that has it, this would be sent:")
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute(NO_TIMEOUTS)  # moving the rows takes as long as it takes
                needed = citus.statements(undo=options["undo"])
                if not needed:
                    self.stdout.write("Nothing to do.")
                for statement in needed:
                    self.stdout.write(f"{statement};")
                    if not options["dry_run"]:
                        with connection.cursor() as cursor:
                            cursor.execute(statement)
        except citus.NotPossible as error:
            raise CommandError(f"{error}.") from error


def table() -> Iterator[str]:
    """Yield a Markdown table of the strategies on a cluster."""
    yield "| operation | strategy | on Citus | because |"
    yield "| --- | --- | --- | --- |"
    for operation, strategies in citus_strategies.TABLES.items():
        for name, (how, why) in strategies.items():
            yield f"| {operation} | `{name}` | {how} | {why} |"
