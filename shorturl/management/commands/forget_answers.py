"""`manage.py forget_answers`: removes old idempotency records."""

from datetime import timedelta

from django.db.models.functions import Now

from shorturl.management.database_command import ForgettingCommand
from shorturl.models import IdempotencyRecord


class Command(ForgettingCommand):
    help = (
        "Remove the stored answers to requests with an Idempotency-Key after 24 hours: such a "
        "request, sent again, is then a new one. Safe at any time."
    )
    old = IdempotencyRecord.objects.filter(kept_at__lt=Now() - timedelta(hours=24))
    what = "answers"
