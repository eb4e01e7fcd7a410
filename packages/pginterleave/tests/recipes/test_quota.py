"""Quotas: no constraint counts rows, so a lock on what they belong to has to."""

import pytest
from django.db import models, transaction

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave

QUOTA = 3


class Customer(models.Model):
    pass


class ApiKey(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE)


@transaction.atomic
def add_key_counting() -> bool:
    customer = Customer.objects.get()
    if ApiKey.objects.filter(customer=customer).count() >= QUOTA:
        return False
    ApiKey.objects.create(customer=customer)
    return True


@transaction.atomic
def add_key_with_lock() -> bool:
    customer = Customer.objects.select_for_update().get()
    if ApiKey.objects.filter(customer=customer).count() >= QUOTA:
        return False
    ApiKey.objects.create(customer=customer)
    return True


def within_quota(outcomes: list[Outcome]) -> str:
    keys = ApiKey.objects.count()
    return "" if keys == QUOTA else f"{keys} keys"


def two_keys() -> None:
    customer = Customer.objects.create()
    for _ in range(QUOTA - 1):
        ApiKey.objects.create(customer=customer)


def test_wrong(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="60 of 70 schedules violate"):
        interleave(add_key_counting, setup=two_keys, invariant=within_quota, count_all=True)


def test_right(interleave: Interleave) -> None:
    found = interleave(add_key_with_lock, setup=two_keys, invariant=within_quota)
    assert found.schedules == 8
