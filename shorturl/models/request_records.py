"""Records of requests: idempotency records, and quota usage."""

from datetime import UTC, datetime, timedelta

from django.contrib.postgres.functions import TransactionNow
from django.db import models
from django.db.models.functions import Now

IDEMPOTENCY_KEY_MAX_LENGTH = 255
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IdempotencyRecord(models.Model):
    """The answer to a request with an Idempotency-Key, stored for when the request is repeated."""

    caller = models.CharField(max_length=100)  # keys of different callers are independent
    key = models.CharField(max_length=IDEMPOTENCY_KEY_MAX_LENGTH)
    fingerprint = models.CharField(max_length=64)  # a hash of the request
    status = models.PositiveSmallIntegerField()
    body = models.TextField(default="")
    location = models.TextField(default="")
    kept_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["caller", "key"], name="shorturl_idempotencyrecord_key_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.caller}"


def period_start(period: timedelta) -> models.Func:
    """Return the beginning of the current period, by the database's clock."""
    return models.Func(period, TransactionNow(), EPOCH, function="DATE_BIN")


class QuotaUsage(models.Model):
    """How much of a quota a spender has used in the period that began at `since`.

    A day begins at midnight UTC, by the database's clock. `manage.py tidy` removes old rows.
    """

    spender = models.CharField(max_length=100)
    period = models.DurationField()
    since = models.DateTimeField(db_default=Now())
    spent = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["spender", "period", "since"], name="shorturl_quotausage_period_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.spent} by {self.spender} since {self.since}"
