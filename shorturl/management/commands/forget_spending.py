"""`manage.py forget_spending`: removes the quota usage of past periods."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models.functions import Now

from shorturl.management.forgetting import forget
from shorturl.models import QuotaUsage

KEPT_FOR = timedelta(days=1)  # as long as the longest period


class Command(BaseCommand):
    """A timer runs it every hour."""

    help = (
        "Remove the counters of quotas that are older than a day, and with them the hashes of "
        "networks. Safe at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove the counters; raise CommandError for a database error."""
        old = QuotaUsage.objects.filter(since__lt=Now() - KEPT_FOR)
        self.stdout.write(f"{forget(old):,} counters removed.")
