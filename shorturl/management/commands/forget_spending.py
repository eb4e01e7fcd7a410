"""`manage.py forget_spending`: removes the quota usage of past periods."""

from datetime import timedelta

from django.db.models.functions import Now

from shorturl.management.database_command import ForgettingCommand
from shorturl.models import QuotaUsage


class Command(ForgettingCommand):
    help = (
        "Remove the counters of quotas that are older than a day, and with them the hashes of "
        "networks. Safe at any time."
    )
    # A day is the longest period.
    old = QuotaUsage.objects.filter(since__lt=Now() - timedelta(days=1))
    what = "counters"
