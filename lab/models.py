"""The tables of the lab."""

from typing import Any

from django.db import models
from django.db.models.functions import Now


class Notification(models.Model):
    """A message that an application stores in one transaction with a short URL."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text


class KeySpace(models.Model):
    """The links of one load run: see load/key_spaces.py."""

    name = models.CharField(max_length=20, unique=True)
    key_length = models.PositiveSmallIntegerField()
    own_visits = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Recording(models.Model):
    """The result of an exploration: how many schedules, how many violate the invariant, and when.

    `explored` schedules ran and are stored; they represent all `schedules`. In `refused` of the
    `violating` ones a process raised an exception; the others are wrong silently. `truncated`
    says which limit ended the search or, if no schedule ran, why the exploration failed; then
    nothing is proven. `counterexample` is the shortest schedule that violates the invariant. Both
    can be empty. `initial` is what the rows contain before the first step.
    `source` is source.digest() of the strategy's file, or empty if it was not stored.
    """

    race = models.CharField(max_length=40)
    strategy = models.CharField(max_length=40)
    processes = models.PositiveSmallIntegerField()
    isolation = models.CharField(max_length=20)
    schedules = models.PositiveBigIntegerField()
    explored = models.PositiveIntegerField()
    violating = models.PositiveBigIntegerField()
    refused = models.PositiveBigIntegerField()
    truncated = models.CharField(max_length=300, blank=True)
    counterexample = models.CharField(max_length=200, blank=True)
    initial = models.TextField()
    source = models.CharField(max_length=64, blank=True)
    seconds = models.FloatField()
    postgresql = models.CharField(max_length=40)
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["race", "strategy", "processes", "isolation"], name="lab_recording_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.race} × {self.strategy}"

    @property
    def proven(self) -> bool:
        """Whether the result is certain: some schedule violates, or all ran and none does."""
        return bool(self.violating or not self.truncated)

    @property
    def wrong(self) -> int:
        return self.violating - self.refused


class RecordedSchedule(models.Model):
    """One schedule of a recording: see store.written() for its `steps` and `outcomes`.

    `second_tries` are the steps of processes that tried again after all had ended.
    """

    recording = models.ForeignKey(Recording, models.CASCADE, related_name="recorded")
    number = models.PositiveIntegerField()
    order = models.CharField(max_length=200)
    violation = models.TextField(blank=True)
    raises = models.BooleanField()  # whether the violation is an exception
    steps = models.JSONField()
    second_tries = models.JSONField(default=list)
    outcomes = models.JSONField()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["recording", "order"], name="lab_schedule_uk")
        ]

    def __str__(self) -> str:
        return self.order

    @property
    def whole(self) -> list[dict[str, Any]]:
        return [*self.steps, *self.second_tries]


class Batch(models.Model):
    """Explorations that were requested together, and their progress.

    `what` is the argument of the command `record`, and `current` the exploration in progress.
    `wanted` is the next one, whose page a visitor has opened. `problem` says what failed.
    """

    what = models.CharField(max_length=200)
    total = models.PositiveSmallIntegerField(default=0)
    done = models.PositiveSmallIntegerField(default=0)
    current = models.CharField(max_length=200, blank=True)
    wanted = models.CharField(max_length=200, blank=True, default="", db_default="")
    problem = models.TextField(blank=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.what
