"""The model of the README's example: vouchers that may be redeemed once."""

from typing import ClassVar

from django.db import models


class Voucher(models.Model):
    """One row of the table that the fixture `voucher_table` makes."""

    code = models.CharField(max_length=20, primary_key=True)
    redeemed = models.IntegerField(default=0)

    objects: ClassVar[models.Manager["Voucher"]] = models.Manager()

    class Meta:
        app_label = "vouchers"

    def __str__(self) -> str:
        return self.code
