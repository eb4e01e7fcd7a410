"""Check-then-act: the last seat is sold twice."""

import pytest
from django.db import models
from django.db.models import F

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Show(models.Model):
    seats = models.IntegerField()


def sell_checking_first() -> bool:
    show = Show.objects.get()
    if show.seats == 0:
        return False
    show.seats -= 1
    show.save()
    return True


def sell_in_one_statement() -> bool:
    return Show.objects.filter(seats__gt=0).update(seats=F("seats") - 1) == 1


def sold_once(outcomes: list[Outcome]) -> str:
    sold = sum(outcome.returned is True for outcome in outcomes)
    return "" if sold == 1 else f"sold {sold} times"


def test_wrong(interleave: Interleave) -> None:
    Show.objects.create(seats=1)
    with pytest.raises(AssertionError, match="12 of 14 schedules violate"):
        interleave(sell_checking_first, invariant=sold_once, count_all=True)


def test_right(interleave: Interleave) -> None:
    Show.objects.create(seats=1)
    assert interleave(sell_in_one_statement, invariant=sold_once).schedules == 4
