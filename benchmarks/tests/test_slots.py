"""Every way to choose a slot adds one hit to one of the two that were drawn."""

import pytest
from django.db import connection

from benchmarks.slots import WAYS
from shorturl.models import PartialCount


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("way", "chosen"), [("random", {2}), ("fewer hits", {1}), ("not locked", {1, 2})]
)
def test_a_hit_is_added_to_the_slot_that_is_chosen(way: str, chosen: set[int]) -> None:
    for slot, hits in enumerate((0, 5, 9)):
        PartialCount.objects.create(short_url_id="hot", slot=slot, hits=hits)
    with connection.cursor() as cursor:
        cursor.execute(WAYS[way].replace(":a", "2").replace(":b", "1"))
        assert cursor.rowcount == 1
    counted = dict(PartialCount.objects.values_list("slot", "hits"))
    before: dict[int | None, int] = {0: 0, 1: 5, 2: 9}
    (changed,) = (slot for slot, hits in counted.items() if hits != before[slot])
    assert changed in chosen
    assert sum(counted.values()) == 15
