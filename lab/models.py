"""The tables of the lab."""

from django.contrib.postgres.fields import ArrayField
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


class Exploration(models.Model):
    """An exploration that somebody has asked for, and its result when it is complete.

    `digest` is source.digest() of what is explored. `asked_at` is when a page last saw to it that a
    process explores, or None if only a command has asked. `ran` is how many schedules have run, or
    None until a process takes it. `problem` says why it failed. `summary` and `kept` are written at
    the end, by one statement: the fields of explored.Explored, and each schedule, compressed.
    """

    race = models.CharField(max_length=40)
    strategy = models.CharField(max_length=40)
    processes = models.PositiveSmallIntegerField()
    isolation = models.CharField(max_length=20)
    digest = models.CharField(max_length=64)
    asked_at = models.DateTimeField(null=True)
    ran = models.PositiveIntegerField(null=True)
    problem = models.TextField(blank=True)
    summary = models.JSONField(null=True)
    kept = ArrayField(models.BinaryField(), default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["race", "strategy", "processes", "isolation"], name="lab_exploration_uk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.race} × {self.strategy}"
