"""The tables of the lab."""

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
