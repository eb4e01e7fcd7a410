"""The removal of old rows in batches, for the commands that a timer runs."""

from typing import Any

from django.db.models import QuerySet

from shorturl.management.database_command import DatabaseCommand

BATCH = 10_000  # rows of one statement, which ends long before statement_timeout


class ForgettingCommand(DatabaseCommand):
    """Removes the rows of `old`, which are called `what`; a timer runs it every hour."""

    old: QuerySet[Any]
    what: str

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove the rows, and say how many."""
        self.stdout.write(f"{forget(self.old):,} {self.what} removed.")


def forget(old: QuerySet[Any], batch: int = BATCH) -> int:
    """Delete the rows of `old`, and return how many.

    One statement deletes up to `batch` rows and commits, so a failure keeps the batches before it.
    Ends with the first batch that is not full.
    """
    removed = 0
    while True:
        some = old.model._base_manager.filter(pk__in=old.values("pk")[:batch])
        rows: int = some._raw_delete(some.db)
        removed += rows
        if rows < batch:
            return removed
