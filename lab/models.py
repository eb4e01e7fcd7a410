"""What the lab keeps beside the service's links."""

from django.db import models
from django.db.models.functions import Now


class Notification(models.Model):
    """A message that was sent together with a short URL, as applications do in one transaction."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text


class KeySpace(models.Model):
    """The part of the service's links that belongs to one load run: see key_spaces.py."""

    name = models.CharField(max_length=20, unique=True)
    key_length = models.PositiveSmallIntegerField()
    own_visits = models.BooleanField(default=False, db_default=False)  # see own_visits.py
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class Recording(models.Model):
    """An exploration as it was run: how many schedules, how many violate the invariant, and when.

    `explored` schedules ran and are kept, and stand for all of them; `with_error` of these violate
    the invariant and raised an error in a process, the others violate it silently. `truncated`
    says which limit ended the search, and `counterexample` is the shortest schedule that violates
    the invariant; both can be empty. `initial` is what the rows hold before the first step.
    `source` is what source.digest() returned for the strategy's file; empty when it was not kept.
    """

    race = models.CharField(max_length=40)
    strategy = models.CharField(max_length=40)
    processes = models.PositiveSmallIntegerField()
    isolation = models.CharField(max_length=20)
    schedules = models.PositiveBigIntegerField()
    explored = models.PositiveIntegerField()
    violating = models.PositiveBigIntegerField()
    with_error = models.PositiveIntegerField()
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


class RecordedSchedule(models.Model):
    """One schedule of a recording: see store.written() for its `steps` and `outcomes`."""

    recording = models.ForeignKey(Recording, models.CASCADE, related_name="recorded")
    number = models.PositiveIntegerField()
    order = models.CharField(max_length=200)
    violation = models.TextField(blank=True)
    steps = models.JSONField()
    outcomes = models.JSONField()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["recording", "order"], name="lab_schedule_uk")
        ]

    def __str__(self) -> str:
        return self.order


class Batch(models.Model):
    """Explorations that were requested together, and their progress.

    `what` is the argument of the command `record`, `current` the exploration in progress, and
    `problem` why the batch ended before all of them were `done`.
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
