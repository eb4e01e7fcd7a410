"""What the lab keeps beside the service's links."""

from django.db import models
from django.db.models.functions import Now


class Notification(models.Model):
    """A message that was sent together with a short URL, as applications do in one transaction."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text


class KeySpace(models.Model):
    """The part of the service's links that belongs to one load run: see spaces.py."""

    name = models.CharField(max_length=20, unique=True)
    key_length = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Recording(models.Model):
    """An exploration as it was run: how many schedules, how many of them broke, where and when.

    `distinct` schedules ran and are kept, and stand for all of them; `raised` of these break with
    an error that a process got, the others without a word. `cut` says which limit ended it early,
    and `witness` is the order of the shortest that breaks; both can be empty. `source` is what
    source.digest() said of the strategy's file; empty when it was not kept.
    """

    race = models.CharField(max_length=40)
    strategy = models.CharField(max_length=40)
    processes = models.PositiveSmallIntegerField()
    isolation = models.CharField(max_length=20)
    schedules = models.PositiveBigIntegerField()
    distinct = models.PositiveIntegerField()
    broken = models.PositiveBigIntegerField()
    raised = models.PositiveIntegerField()
    cut = models.CharField(max_length=300, blank=True)
    witness = models.CharField(max_length=200, blank=True)
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


class RecordedSchedule(models.Model):
    """One schedule of a recording: see recording.written() for its `steps` and `outcomes`."""

    recording = models.ForeignKey(Recording, models.CASCADE, related_name="recorded")
    number = models.PositiveIntegerField()
    order = models.CharField(max_length=200)
    broken = models.TextField(blank=True)
    steps = models.JSONField()
    outcomes = models.JSONField()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["recording", "order"], name="lab_schedule_uk")
        ]

    def __str__(self) -> str:
        return self.order


class Run(models.Model):
    """Explorations that are asked for together, and how far they are.

    `what` is what the command `record` was told, `current` the exploration that goes on, and
    `problem` why it ended before all were `done`.
    """

    what = models.CharField(max_length=200)
    total = models.PositiveSmallIntegerField(default=0)
    done = models.PositiveSmallIntegerField(default=0)
    current = models.CharField(max_length=200, blank=True)
    problem = models.TextField(blank=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.what
