"""The lab's own tables, beside the service's."""

from typing import Any

from django.db import models
from django.db.models.functions import Now


class Notification(models.Model):
    """A message that was sent together with a short URL, as applications do in one transaction."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text


class KeySpace(models.Model):
    """The part of the service's links that belongs to one load run: see load/key_spaces.py."""

    name = models.CharField(max_length=20, unique=True)
    key_length = models.PositiveSmallIntegerField()
    own_visits = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Recording(models.Model):
    """An exploration as it was run: how many schedules, how many violate the invariant, and when.

    `explored` schedules ran and are kept, and stand for all of them. In `refused` of the
    `violating` ones a process raised an exception; the others are wrong silently. `truncated`
    says which limit ended the search, or, where there is no schedule, why the exploration failed;
    then nothing is proven. `counterexample` is the shortest schedule that violates the invariant.
    Both can be empty. `initial` is what the rows hold before the first step.
    `source` is what source.digest() returned for the strategy's file; empty when it was not kept.
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
        """Whether it says something for certain: a schedule violates, or none of all does."""
        return bool(self.violating or not self.truncated)

    @property
    def wrong(self) -> int:
        return self.violating - self.refused


class RecordedSchedule(models.Model):
    """One schedule of a recording: see store.written() for its `steps` and `outcomes`.

    `second_tries` are the steps of the processes that had to try again, after all had ended.
    """

    recording = models.ForeignKey(Recording, models.CASCADE, related_name="recorded")
    number = models.PositiveIntegerField()
    order = models.CharField(max_length=200)
    violation = models.TextField(blank=True)
    raises = models.BooleanField()  # what the violation is, then
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

    `what` is the argument of the command `record`, `current` the exploration in progress, `wanted`
    the one whose page somebody has opened, which comes next, and `problem` what failed.
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
