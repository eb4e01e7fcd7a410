"""`manage.py forget_answers`: removes old idempotency records."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models.functions import Now

from shorturl.management.forgetting import forget
from shorturl.models import IdempotencyRecord

KEPT_FOR = timedelta(hours=24)


class Command(BaseCommand):
    """A timer runs it every hour."""

    help = (
        "Remove the answers that were kept for requests with an Idempotency-Key more than 24 hours "
        "ago: sent again, such a request is a new one. Safe at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove the records; raise CommandError for a database error."""
        old = IdempotencyRecord.objects.filter(kept_at__lt=Now() - KEPT_FOR)
        self.stdout.write(f"{forget(old):,} answers removed.")
