"""The README's example: two people buy the last item in stock."""

import pytest
from django.db.models import F

from pginterleave.pytest_plugin import Interleave

from .shop import Item

pytestmark = pytest.mark.usefixtures("item_table")


def buy_checking_first() -> bool:
    item = Item.objects.get(name="lamp")
    if item.stock == 0:
        return False
    item.stock -= 1
    item.save()
    return True


def buy_in_one_statement() -> bool:
    return Item.objects.filter(name="lamp", stock__gt=0).update(stock=F("stock") - 1) == 1


def test_the_last_one_is_sold_once(interleave: Interleave) -> None:
    Item.objects.create(name="lamp", stock=1)
    interleave(buy_in_one_statement)
