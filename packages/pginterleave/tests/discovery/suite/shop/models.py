"""What the shop keeps."""

import uuid

from django.db import models


class Voucher(models.Model):
    code = models.CharField(max_length=20, unique=True)
    used = models.BooleanField(default=False)
    value = models.IntegerField(default=10)
    note = models.CharField(max_length=20, default="")
    serial = models.UUIDField(default=uuid.uuid4)


class Redemption(models.Model):
    voucher = models.ForeignKey(Voucher, models.CASCADE)


class LogLine(models.Model):
    text = models.CharField(max_length=200)
