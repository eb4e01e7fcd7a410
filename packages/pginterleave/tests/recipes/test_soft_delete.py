"""Unique with soft delete: NULL is not equal to NULL, so the constraint refuses no row."""

import pytest
from django.db import IntegrityError, models
from django.db.models import Q

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class OpenAccount(models.Model):
    email = models.CharField(max_length=50)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        unique_together = [("email", "deleted_at")]


class Account(models.Model):
    email = models.CharField(max_length=50)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint("email", condition=Q(deleted_at=None), name="one_live_account")
        ]


def register_with_nulls() -> None:
    if not OpenAccount.objects.filter(email="ann@example.com", deleted_at=None).exists():
        OpenAccount.objects.create(email="ann@example.com")


def register_with_condition() -> None:
    if not Account.objects.filter(email="ann@example.com", deleted_at=None).exists():
        Account.objects.create(email="ann@example.com")


def one_live(outcomes: list[Outcome]) -> str:
    live = sum(model.objects.filter(deleted_at=None).count() for model in (OpenAccount, Account))
    return "" if live == 1 else f"{live} live accounts"


def test_wrong(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="18 of 20 schedules violate"):
        interleave(register_with_nulls, invariant=one_live, count_all=True)


def test_right(interleave: Interleave) -> None:
    """Who comes second gets an IntegrityError, which a view turns into an answer."""
    options = {"invariant": one_live, "expected": IntegrityError}
    assert interleave(register_with_condition, **options).schedules == 14
