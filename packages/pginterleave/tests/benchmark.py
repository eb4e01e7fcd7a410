"""How long a schedule takes: `pytest tests/benchmark.py -s`.

Two processes send four statements each, in autocommit, and each schedule is compared with the
serial orders.
"""

import contextlib

import pytest
from django.db.models import F

from pginterleave import NotProven, Options
from pginterleave.pytest_plugin import Interleave

from .shop import Item

SCHEDULES = 150


@pytest.mark.usefixtures("item_table")
def test_an_autocommit_pair_of_eight_statements(interleave: Interleave) -> None:
    item = Item.objects.create(name="apple", stock=100)

    def sell_two() -> None:
        for _ in range(2):
            Item.objects.get(pk=item.pk)
            Item.objects.filter(pk=item.pk, stock__gt=0).update(stock=F("stock") - 1)

    with contextlib.suppress(NotProven):  # as it does not run all
        interleave(sell_two, max_schedules=SCHEDULES, options=Options(reduce=False))
    (found,) = interleave.explorations
    print(f"\n{SCHEDULES} of {found.schedules} schedules ran in {found.seconds:.2f} s")
