"""`manage.py forget_answers`: remove the answers that were kept for repeated requests."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models.functions import Now

from shorturl.management.forgetting import forget
from shorturl.models import KeptAnswer

KEPT_FOR = timedelta(hours=24)


class Command(BaseCommand):
    """Removes what is old; for a timer, every hour."""

    help = (
        "Remove the answers that were kept for requests with an Idempotency-Key more than 24 hours "
        "ago: sent again, such a request is a new one. Safe at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Remove, and say how many; raise CommandError when the database cannot."""
        old = KeptAnswer.objects.filter(kept_at__lt=Now() - KEPT_FOR)
        self.stdout.write(f"{forget(old):,} answers removed.")
