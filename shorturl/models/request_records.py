"""Records of requests: claims of targets, idempotency records, and quota usage."""

from django.db import models
from django.db.models.functions import Now

from shorturl import exceptions

IDEMPOTENCY_KEY_MAX_LENGTH = 255


class ReuseClaim(models.Model):
    """A requested target: a row that reusing.on_conflict inserts only to lock it."""

    digest = models.BinaryField(primary_key=True)  # of owner and target

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class IdempotencyRecord(models.Model):
    """The answer to a request with an Idempotency-Key, stored for when the request is repeated.

    Only `insert_first` has records without a status, of requests that are still in progress.
    """

    KeyReused = exceptions.KeyReused
    InFlight = exceptions.InFlight

    caller = models.CharField(max_length=100)  # keys of different callers are independent
    key = models.CharField(max_length=IDEMPOTENCY_KEY_MAX_LENGTH)
    fingerprint = models.CharField(max_length=64)  # a hash of the request
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(default="")
    location = models.TextField(default="")
    kept_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        db_table = "shorturl_keptanswer"
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="shorturl_keptanswer_key_uk")
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.caller}"


class QuotaUsage(models.Model):
    """How much of a quota a spender has used; `manage.py forget_spending` removes old rows.

    Periods are the same for all spenders, by the database's clock: a day begins at midnight UTC, a
    minute at its first second. A row with a period is the counter of the period that began at
    `since`. A row without a period is a single create (`count_then_insert`).
    """

    spender = models.CharField(max_length=100)
    period = models.DurationField(null=True)
    since = models.DateTimeField(db_default=Now())
    spent = models.PositiveIntegerField(default=1)

    class Meta:
        db_table = "shorturl_spending"
        # No index on `since`: it would slow down every new counter. forget_spending takes twice as
        # long without it, and still deletes from a million rows in statements of a second.
        # NULLs are distinct, so a spender can have many single creates.
        constraints = [
            models.UniqueConstraint(
                fields=["spender", "period", "since"], name="shorturl_spending_period_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.spent} by {self.spender} since {self.since}"
