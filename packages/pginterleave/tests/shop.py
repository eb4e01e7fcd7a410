"""The model of the README's example: items of which a shop has a stock."""

from typing import ClassVar

from django.db import models


class Item(models.Model):
    """One row of the table that the fixture `item_table` makes."""

    name = models.CharField(max_length=20, primary_key=True)
    stock = models.IntegerField()

    objects: ClassVar[models.Manager["Item"]] = models.Manager()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return self.name
