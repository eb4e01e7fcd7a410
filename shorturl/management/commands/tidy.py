"""`manage.py tidy`: all that a timer has to do, one step after another."""

from datetime import timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.db.models import QuerySet
from django.db.models.functions import Now

from shorturl.exceptions import counted
from shorturl.management.database_command import database_error
from shorturl.models import IdempotencyRecord, QuotaUsage

BATCH = 10_000  # rows of one statement, which ends long before statement_timeout
A_DAY_AGO = Now() - timedelta(days=1)
OLD_ROWS: dict[str, QuerySet[Any]] = {
    "answer": IdempotencyRecord.objects.filter(kept_at__lt=A_DAY_AGO),
    "counter": QuotaUsage.objects.filter(since__lt=A_DAY_AGO),  # with hashes of networks
    "session": Session.objects.filter(expire_date__lt=Now()),
}


class Command(BaseCommand):
    help = (
        "Remove what is no longer needed: after a day answers to requests with an Idempotency-Key "
        "and counters of quotas, and sessions that have expired. Then roll up visits. Safe at any "
        "time, and any number of times at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Take each step, also after a failure; raise CommandError at the end if any failed."""
        failures = []
        for name in (*OLD_ROWS, "roll_up"):  # the longest is the last
            try:
                if name in OLD_ROWS:
                    removed = remove_in_batches(OLD_ROWS[name])
                    self.stdout.write(f"{counted(removed, name)} removed.")
                else:
                    call_command(name, stdout=self.stdout, stderr=self.stderr)
            except CommandError as error:
                failures.append(f"{name}: {error}")
            except DatabaseError as error:
                failures.append(f"{name}: {database_error(error, 'Try again.')}")
        if failures:
            raise CommandError("\n".join(failures))


def remove_in_batches(rows: QuerySet[Any]) -> int:
    """Delete the rows, and commit each batch; return how many."""
    total = 0
    while True:
        batch = rows.model._base_manager.filter(pk__in=rows.values("pk")[:BATCH])
        removed: int = batch.delete()[0]
        total += removed
        if removed < BATCH:
            return total
