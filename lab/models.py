"""The tables of the lab."""

from django.db import models


class Notification(models.Model):
    """A message that an application stores in one transaction with a short URL."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text
