"""`manage.py forget_answers`: removes old idempotency records."""

from datetime import timedelta

from django.db.models.functions import Now

from shorturl.management.database_command import ForgettingCommand
from shorturl.models import IdempotencyRecord


class Command(ForgettingCommand):
    help = (
        "Remove the answers that were kept for requests with an Idempotency-Key more than 24 hours "
        "ago: sent again, such a request is a new one. Safe at any time."
    )
    old = IdempotencyRecord.objects.filter(kept_at__lt=Now() - timedelta(hours=24))
    what = "answers"
