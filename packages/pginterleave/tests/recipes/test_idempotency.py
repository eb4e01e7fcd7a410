"""Idempotency: the same webhook is delivered twice, and must be booked once."""

import pytest
from django.db import models, transaction
from django.db.models import F

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Ledger(models.Model):
    balance = models.IntegerField(default=0)


class Delivery(models.Model):
    event = models.CharField(max_length=50, primary_key=True)


@transaction.atomic
def book_checking_first() -> None:
    if Delivery.objects.filter(event="evt_1").exists():
        return
    Ledger.objects.update(balance=F("balance") + 10)
    Delivery(event="evt_1").save()


@transaction.atomic
def book_once() -> None:
    _, created = Delivery.objects.get_or_create(event="evt_1")
    if created:
        Ledger.objects.update(balance=F("balance") + 10)


def booked_once(outcomes: list[Outcome]) -> str:
    balance = Ledger.objects.get().balance
    return "" if balance == 10 else f"balance = {balance}"


def test_wrong(interleave: Interleave) -> None:
    Ledger.objects.create()
    with pytest.raises(AssertionError, match="34 of 36 schedules violate"):
        interleave(book_checking_first, invariant=booked_once, count_all=True)


def test_right(interleave: Interleave) -> None:
    Ledger.objects.create()
    assert interleave(book_once, invariant=booked_once).schedules == 148
