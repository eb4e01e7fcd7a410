"""How long a schedule takes: `pytest tests/benchmark.py -s`.

Two processes send four statements each, in autocommit, and each schedule is compared with the
serial orders. With more tables in the database it takes longer to find out which were written.
"""

import contextlib
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.models import F

from pginterleave import NotProven, Options
from pginterleave.pytest_plugin import Interleave

from .shop import Item

SCHEDULES = 150


@pytest.fixture
def tables(request: pytest.FixtureRequest) -> Iterator[int]:
    """Make so many tables that no process uses."""
    with connection.cursor() as cursor:
        for number in range(request.param):
            cursor.execute(f"CREATE TABLE interleave_unused_{number} (id bigserial PRIMARY KEY)")
        yield request.param
        for number in range(request.param):
            cursor.execute(f"DROP TABLE interleave_unused_{number}")


@pytest.mark.parametrize("tables", [0, 60], indirect=True)
@pytest.mark.usefixtures("item_table")
def test_an_autocommit_pair_of_eight_statements(interleave: Interleave, tables: int) -> None:
    pk = Item.objects.create(name="apple", stock=100).pk

    def sell_two() -> None:
        for _ in range(2):
            Item.objects.get(pk=pk)
            Item.objects.filter(pk=pk, stock__gt=0).update(stock=F("stock") - 1)

    began = time.process_time()
    with contextlib.suppress(NotProven):  # as it does not run all
        interleave(sell_two, max_schedules=SCHEDULES, options=Options(reduce=False))
    (found,) = interleave.explorations
    print(
        f"\n{SCHEDULES} schedules beside {tables} other tables: {found.seconds:.2f} s, "
        f"of the processor {time.process_time() - began:.2f} s in Python"
    )
