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
