"""What is kept of requests: claims, answers to repeated ones, and what they spent of a quota."""

from django.db import models
from django.db.models.functions import Now

from shorturl import exceptions

IDEMPOTENCY_KEY_MAX_LENGTH = 255


class ReuseClaim(models.Model):
    """A target that somebody has asked for; it stands for nothing but the lock on its row.

    Only the strategy reusing.on_conflict has rows here.
    """

    digest = models.BinaryField(primary_key=True)  # of owner and target

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class KeptAnswer(models.Model):
    """The answer to a request with an Idempotency-Key, for whoever sends it again.

    Without a status the request is not answered yet, which only `insert_first` knows.
    """

    KeyReused = exceptions.KeyReused
    InFlight = exceptions.InFlight

    caller = models.CharField(max_length=100)  # whose keys these are
    key = models.CharField(max_length=IDEMPOTENCY_KEY_MAX_LENGTH)
    fingerprint = models.CharField(max_length=64)  # of what was asked for
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(default="")
    location = models.TextField(default="")
    kept_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="shorturl_keptanswer_key_uk")
        ]

    def __str__(self) -> str:
        return f"{self.key} of {self.caller}"


class Spending(models.Model):
    """What a spender has used of a quota; `manage.py forget_spending` removes it after a day.

    Periods are the same for everybody and end by the database's clock: a day begins at midnight
    UTC, a minute at its first second. A row with a period is a counter of the one that began at
    `since`; a row without is a single create (`count_then_insert`).
    """

    spender = models.CharField(max_length=100)
    period = models.DurationField(null=True)
    since = models.DateTimeField(db_default=Now())
    spent = models.PositiveIntegerField(default=1)

    class Meta:
        # No index on `since`: every new counter would pay for it, and forget_spending, which takes
        # twice as long without one, still deletes from a million rows in statements of a second.
        # NULLs are distinct: single creates are many.
        constraints = [
            models.UniqueConstraint(
                fields=["spender", "period", "since"], name="shorturl_spending_period_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.spent} by {self.spender} since {self.since}"
