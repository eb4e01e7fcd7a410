"""The removal of old rows in batches, for the commands that a timer runs."""

from typing import Any

from django.db import DatabaseError
from django.db.models import QuerySet

from shorturl.management.command_errors import database_error

BATCH = 10_000  # rows of one statement, which ends long before statement_timeout


def forget(old: QuerySet[Any], batch: int = BATCH) -> int:
    """Delete the rows of `old`, and return how many; raise CommandError for a database error.

    One statement deletes up to `batch` rows and commits, so a failure keeps the batches before it.
    Ends with the first batch that is not full.
    """
    removed = 0
    try:
        while True:
            some = old.model._base_manager.filter(pk__in=old.values("pk")[:batch])
            rows: int = some._raw_delete(some.db)
            removed += rows
            if rows < batch:
                return removed
    except DatabaseError as error:
        raise database_error(error, "Try again.") from error
