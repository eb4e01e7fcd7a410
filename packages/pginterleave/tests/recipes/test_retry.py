"""Retries: under REPEATABLE READ, the second process has to try the whole transaction again."""

import pytest
from django.db import OperationalError, models, transaction

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave

pytestmark = pytest.mark.interleave(isolation_level="repeatable read")

ATTEMPTS = 3


class Stock(models.Model):
    items = models.IntegerField()


@transaction.atomic
def take_one() -> None:
    stock = Stock.objects.get()
    stock.items -= 1
    stock.save()


def take_one_with_retry() -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            take_one()
        except OperationalError as error:
            refused = getattr(error.__cause__, "sqlstate", None) or error.__cause__.pgcode
            if refused != "40001" or attempt == ATTEMPTS:
                raise
        else:
            return


def both_took_one(outcomes: list[Outcome]) -> str:
    items = Stock.objects.get().items
    return "" if items == 5 else f"{items} items left of 7"


def test_wrong(interleave: Interleave) -> None:
    Stock.objects.create(items=7)
    with pytest.raises(AssertionError, match="In 12 of 14 schedules a process raises"):
        interleave(take_one, invariant=both_took_one, count_all=True)


def test_right(interleave: Interleave) -> None:
    Stock.objects.create(items=7)
    assert interleave(take_one_with_retry, invariant=both_took_one).schedules == 14
