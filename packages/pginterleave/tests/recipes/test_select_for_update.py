"""select_for_update: a transaction alone is not a lock."""

import pytest
from django.db import models, transaction

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Wallet(models.Model):
    balance = models.IntegerField()


@transaction.atomic
def pay_without_lock() -> bool:
    wallet = Wallet.objects.get()
    if wallet.balance < 10:
        return False
    wallet.balance -= 10
    wallet.save()
    return True


@transaction.atomic
def pay_with_lock() -> bool:
    wallet = Wallet.objects.select_for_update().get()
    if wallet.balance < 10:
        return False
    wallet.balance -= 10
    wallet.save()
    return True


def every_payment_is_booked(outcomes: list[Outcome]) -> str:
    paid = sum(outcome.returned is True for outcome in outcomes)
    left = Wallet.objects.get().balance
    return "" if left == 30 - 10 * paid else f"{paid} payments, and {left} left of 30"


def test_wrong(interleave: Interleave) -> None:
    Wallet.objects.create(balance=30)
    with pytest.raises(AssertionError, match="12 of 14 schedules violate"):
        interleave(pay_without_lock, invariant=every_payment_is_booked, count_all=True)


def test_right(interleave: Interleave) -> None:
    Wallet.objects.create(balance=30)
    assert interleave(pay_with_lock, invariant=every_payment_is_booked).schedules == 6
