"""The example of docs/testing-for-races.md: two people redeem a link that may be used once."""

import pytest
from django.db.models import F, Subquery

from pginterleave import explore
from shorturl.models import ShortUrl


def redeem_checking_first(key: str) -> bool:
    short_url = ShortUrl.objects.get(key=key)
    if short_url.hits > 0:
        return False
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return True


def redeem_in_one_statement(key: str) -> bool:
    return ShortUrl.objects.filter(key=key, hits=0).update(hits=F("hits") + 1) == 1


def redeem_what_it_finds(key: str) -> bool:
    found = ShortUrl.objects.filter(key=key, hits=0).values("pk")
    return ShortUrl.objects.filter(pk=Subquery(found)).update(hits=F("hits") + 1) == 1


def setup() -> None:
    ShortUrl.objects.update_or_create(
        key="once", defaults={"target_url": "https://example.com/", "hits": 0}
    )


def invariant(outcomes: list) -> str:  # type: ignore[type-arg]
    redeemed = sum(outcome.returned is True for outcome in outcomes)
    return "" if redeemed == 1 else f"redeemed {redeemed} times"


@pytest.mark.django_db(transaction=True)
def test_one_statement_redeems_once() -> None:
    processes = [lambda: redeem_in_one_statement("once")] * 2
    explore(processes, setup=setup, invariant=invariant).assert_safe()


@pytest.mark.django_db(transaction=True)
def test_checking_first_redeems_twice() -> None:
    processes = [lambda: redeem_checking_first("once")] * 2
    result = explore(processes, setup=setup, invariant=invariant)
    assert (len(result.violations), result.schedules) == (4, 6)
    with pytest.raises(AssertionError, match="redeemed 2 times"):
        result.assert_safe()


@pytest.mark.django_db(transaction=True)
def test_statements_that_overlap() -> None:
    processes = [lambda: redeem_in_one_statement("once")] * 2
    explore(processes, setup=setup, invariant=invariant, split_autocommit=True).assert_safe()
    processes = [lambda: redeem_what_it_finds("once")] * 2
    result = explore(processes, setup=setup, invariant=invariant, split_autocommit=True)
    assert (len(result.violations), result.schedules) == (2, 4)
