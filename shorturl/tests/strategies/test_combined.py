"""combined: one statement for the hits of one key, and one for those of several keys."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from shorturl.models import CLOCK, Counted, ShortUrl
from shorturl.strategies.resolving import combined
from shorturl.tests.callers import closing_connection, with_cursor

pytestmark = pytest.mark.django_db(transaction=True)


def make(**hits: int) -> None:
    ShortUrl.objects.all().erase()
    for key, number in hits.items():
        ShortUrl.objects.create(key=key, target_url=f"https://{key}.example/", hits=number)


def counters() -> dict[str, int]:
    return dict(ShortUrl.objects.order_by("key").values_list("key", "hits"))


def numbers(rows: Mapping[str, Counted]) -> dict[str, int]:
    """Return the number of the last hit by key; every row has to be of its key's link."""
    for key, row in rows.items():
        assert row[1:3] == (key, f"https://{key}.example/")
    return {key: row[3] for key, row in rows.items()}


def in_another_session(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(closing_connection, function).result()


def test_all_hits_of_a_key_are_counted_or_none() -> None:
    make(hot=5)
    link = with_cursor(combined.count_one, "hot", 3)
    assert link
    assert numbers({"hot": link}) == {"hot": 8}
    assert counters() == {"hot": 8}
    ShortUrl.objects.update(max_hits=10)
    assert with_cursor(combined.count_one, "hot", 3) is None
    assert with_cursor(combined.count, {"hot": 3}) == {}
    assert numbers(with_cursor(combined.count, {"hot": 2})) == {"hot": 10}
    assert counters() == {"hot": 10}


def test_one_statement_counts_several_keys_and_omits_those_not_live() -> None:
    make(a=1, b=2, deleted=0, expired=0, used=7)
    ShortUrl.objects.get(key="deleted").delete()
    ShortUrl.objects.filter(key="expired").update(expires_at=CLOCK)
    ShortUrl.objects.filter(key="used").update(max_hits=7)
    counted = with_cursor(
        combined.count, {"b": 1, "deleted": 1, "none": 1, "expired": 1, "used": 1, "a": 2}
    )
    assert numbers(counted) == {"a": 3, "b": 3}
    assert counters() == {"a": 3, "b": 3, "deleted": 0, "expired": 0, "used": 7}


def test_count_skips_a_locked_row() -> None:
    make(a=0, b=0)
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key="a")
        counted = in_another_session(lambda: with_cursor(combined.count, {"a": 1, "b": 1}))
        assert list(counted) == ["b"]
    assert counters() == {"a": 0, "b": 1}


def test_statements_that_name_keys_in_opposite_orders_do_not_deadlock() -> None:
    """In threads, as an exploration does not interrupt a statement."""
    keys = list("abcdefgh")
    make(**dict.fromkeys(keys, 0))
    left = [0, 0]

    def follow(number: int) -> None:
        order = keys if number else keys[::-1]
        for _ in range(100):
            left[number] += len(keys) - len(with_cursor(combined.count, dict.fromkeys(order, 1)))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(closing_connection, [partial(follow, number) for number in range(2)]))
    assert sum(counters().values()) == 2 * 100 * len(keys) - sum(left)
